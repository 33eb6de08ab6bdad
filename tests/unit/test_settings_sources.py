"""File, environment and flags: how each is read, who wins, and how each is refused."""

import json
from pathlib import Path

import pytest

from app.settings import InvalidSettings, LogLevel, load, read
from app.settings.layers import FLAGS, variable
from app.settings.model import leaves
from app.settings.printing import show
from tests.unit.settings_judging import NOTHING, refused, written


def text(directory: Path, content: str | bytes) -> str:
    path = directory / "plugin.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_the_environment_overrides_the_file_and_flags_override_both(tmp_path: Path) -> None:
    path = written(tmp_path, {"log": {"level": "error", "format": "console"}, "state": "/srv/file.db"})
    environ = {"MEMIF_DP_LOG__LEVEL": "warning", "MEMIF_DP_STATE": "/srv/variable.db"}

    effective = read(path, environ=environ, flags={"--log-level": "debug", "--runtime": None})

    assert effective.settings.log.level is LogLevel.DEBUG
    assert effective.settings.state == "/srv/variable.db"
    assert effective.settings.log.format == "console"
    assert effective.origin(("log", "level")) == "--log-level"
    assert effective.origin(("state",)) == "MEMIF_DP_STATE"
    assert effective.origin(("log", "format")) == "file"
    assert effective.origin(("runtime", "kind")) == "default"


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_reaches_its_key(flag: str) -> None:
    values = {"--runtime": "memory", "--log-level": "debug", "--log-format": "console"}
    value = values.get(flag, "/srv/x")

    effective = read(flags={flag: value}, environ=NOTHING)

    held: object = effective.settings
    for part in FLAGS[flag]:
        held = getattr(held, part)
    assert held == value
    assert effective.origin(FLAGS[flag]) == flag


ENVIRONMENT = {
    "MEMIF_DP_VERSION": ("1", 1),
    "MEMIF_DP_STATE": ("/srv/x.db", "/srv/x.db"),
    "MEMIF_DP_DRAIN_ON_EXIT": ("False", False),
    "MEMIF_DP_RUNTIME__KIND": ("cri", "cri"),
    "MEMIF_DP_RUNTIME__ENDPOINT": ("unix:///run/x.sock", "unix:///run/x.sock"),
    "MEMIF_DP_RUNTIME__CONTAINERD_NAMESPACE": ("moby", "moby"),
    "MEMIF_DP_KUBELET__PLUGIN_DIR": ("/srv/plugins", "/srv/plugins"),
    "MEMIF_DP_KUBELET__SOCKET": ("k.sock", "k.sock"),
    "MEMIF_DP_KUBELET__ENDPOINT": ("e.sock", "e.sock"),
    "MEMIF_DP_KUBELET__POD_RESOURCES": ("/srv/pr.sock", "/srv/pr.sock"),
    "MEMIF_DP_CONTROL__SOCKET": ("/srv/c.sock", "/srv/c.sock"),
    "MEMIF_DP_CONTROL__MODE": ("0660", 0o660),
    "MEMIF_DP_CONTROL__GROUP": ("1000", 1000),
    "MEMIF_DP_CONTROL__AGENT_SOCKET": ("null", None),
    "MEMIF_DP_CONTROL__AGENT_GROUP": ("null", None),
    "MEMIF_DP_HTTP__LISTEN": ("null", None),
    "MEMIF_DP_RECONCILE__INTERVAL": ("1m", 60.0),
    "MEMIF_DP_RECONCILE__GRACE": ("0", 0.0),
    "MEMIF_DP_LOG__LEVEL": ("debug", "debug"),
    "MEMIF_DP_LOG__FORMAT": ("console", "console"),
}


def test_every_key_but_the_pools_has_an_example_here() -> None:
    assert {variable(key) for key, _ in leaves()} == {*ENVIRONMENT, "MEMIF_DP_POOLS"}


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_every_key_has_a_variable(name: str) -> None:
    given, value = ENVIRONMENT[name]
    key = next(key for key, _ in leaves() if variable(key) == name)

    effective = read(environ={name: given, "PATH": "/bin", "MEMIF_DPX": "1"})

    held: object = effective.settings
    for part in key:
        held = getattr(held, str(part))
    assert held == value
    assert effective.origin(key) == name


def test_the_process_environment_is_read_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMIF_DP_LOG__LEVEL", "debug")

    assert load().log.level is LogLevel.DEBUG


def test_pools_are_given_whole_and_replace_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, {"pools": [{"capacity": 5, "pod_file": True}, {"resource": "example.com/x"}]})

    effective = read(path, environ={"MEMIF_DP_POOLS": '[{"capacity": 7, "list_interval": "20s"}]'})

    assert [(each.capacity, each.pod_file) for each in effective.settings.pools] == [(7, False)]
    assert effective.origin(("pools", 0, "capacity")) == "MEMIF_DP_POOLS"
    assert effective.origin(("pools", 0, "pod_file")) == "default"


def test_pools_in_the_environment_may_be_none() -> None:
    assert load(environ={"MEMIF_DP_POOLS": "[]"}).pools == ()


@pytest.mark.parametrize(
    "given,key,sense",
    [
        ("", "pools", "must be a JSON list"),
        ("memif", "pools", "must be a JSON list"),
        ("[" * 100_000, "pools", "must be a JSON list"),
        ("null", "pools", "must be a list, not null"),
        ("{}", "pools", "must be a list, not a mapping"),
        ('[{"capacity": 1, "capacity": 2}]', "pools", "must not give 'capacity' twice"),
        ('[{"capacity": "1"}]', "pools.0.capacity", "must be a whole number"),
        ('[{"capacity": NaN}]', "pools.0.capacity", "must be a whole number"),
        ('[{"capacty": 1}]', "pools.0.capacty", "unknown key, did you mean capacity?"),
        ('[{"host_dir": "/a\\ud800"}]', "pools.0.host_dir", "printable"),
        ('["x"]', "pools.0", "must be a mapping, not 'x'"),
        ("[[]]", "pools.0", "must be a mapping, not a list"),
    ],
    ids=lambda value: value[:20],
)
def test_pools_in_the_environment_are_refused_with_variable_and_key(given: str, key: str, sense: str) -> None:
    faults = refused(environ={"MEMIF_DP_POOLS": given})

    assert list(faults) == [key]
    assert sense in faults[key]
    assert faults[key].endswith("(MEMIF_DP_POOLS)")


def test_the_control_socket_has_a_second_variable() -> None:
    effective = read(environ={"MEMIF_DP_CONTROL_SOCKET": "/srv/c.sock"})

    assert effective.settings.control.socket == "/srv/c.sock"
    assert effective.origin(("control", "socket")) == "MEMIF_DP_CONTROL_SOCKET"


def test_the_two_variables_of_the_control_socket_must_agree() -> None:
    both = {"MEMIF_DP_CONTROL_SOCKET": "/srv/c.sock", "MEMIF_DP_CONTROL__SOCKET": "/srv/c.sock"}

    faults = refused(environ=both | {"MEMIF_DP_CONTROL__SOCKET": "/srv/d.sock"})

    assert load(environ=both).control.socket == "/srv/c.sock"
    assert list(faults) == ["control.socket"]
    assert "MEMIF_DP_CONTROL_SOCKET and MEMIF_DP_CONTROL__SOCKET are both set, and differ" in faults["control.socket"]


@pytest.mark.parametrize(
    "name,key,hint",
    [
        ("MEMIF_DP_LOG__LEVL", "log.levl", "did you mean MEMIF_DP_LOG__LEVEL?"),
        ("MEMIF_DP_LOG_LEVEL", "log_level", "did you mean MEMIF_DP_LOG__LEVEL?"),
        ("MEMIF_DP_log__level", "log.level", "unknown variable"),
        ("MEMIF_DP_", "''", "unknown variable"),
        ("MEMIF_DP_RUNTIME", "runtime", "a section is given key by key, as in MEMIF_DP_RUNTIME__KIND"),
        ("MEMIF_DP_POOLS__0__CAPACITY", "pools.0.capacity", "the list is given whole, as JSON in MEMIF_DP_POOLS"),
        ("MEMIF_DP_SERVICE_HOST", "service_host", "switch enableServiceLinks off"),
        ("MEMIF_DP_PORT_9599_TCP_ADDR", "port_9599_tcp_addr", "switch enableServiceLinks off"),
        ("MEMIF_DP_A\nB", "'a\\nb'", "unknown variable"),
    ],
)
def test_an_unknown_variable_is_refused_with_a_hint(name: str, key: str, hint: str) -> None:
    faults = refused(environ={name: "x"})

    assert list(faults) == [key]
    assert hint in faults[key]
    assert "\n" not in faults[key]


@pytest.mark.parametrize(
    "name",
    sorted(set(ENVIRONMENT) - {"MEMIF_DP_CONTROL__AGENT_SOCKET", "MEMIF_DP_CONTROL__AGENT_GROUP"}),
)
def test_an_empty_variable_is_an_empty_text_and_not_an_absent_one(name: str) -> None:
    key = name.removeprefix("MEMIF_DP_").lower().replace("__", ".")

    faults = refused(environ={name: ""})

    assert list(faults) == [key]
    assert faults[key].endswith(f"({name})")


def test_a_flag_that_is_given_and_empty_is_refused_by_its_name() -> None:
    assert refused(flags={"--state": ""}) == {"state": "must be an absolute path, not '' (--state)"}


def test_a_value_of_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = text(tmp_path, "# mine\nlog:\n  level: loud\npools:\n- capacity: 5\n- resource: x\n  numa_node: -1\n")

    faults = refused(path)

    assert faults["log.level"].endswith(f"({path} line 3)")
    assert faults["pools.1.resource"].endswith(f"({path} line 6)")
    assert faults["pools.1.numa_node"].endswith(f"({path} line 7)")


@pytest.mark.parametrize(
    "content,key,sense",
    [
        ("nonsense: 1", "nonsense", "unknown key"),
        ("log: {levle: info}", "log.levle", "unknown key, did you mean level?"),
        ("resource: x", "resource", "unknown key"),
        ("pools: [{numa: 1}]", "pools.0.numa", "unknown key"),
        ("log: {a b: 1}", "log.'a b'", "unknown key"),
        ("state: /a/b\nstate: /a/c", "state", "given twice, in lines 1 and 2"),
        ("log:\n  level: info\n  level: info", "log.level", "given twice, in lines 2 and 3"),
        ("pools:\n- capacity: 1\n  capacity: 2", "pools.0.capacity", "given twice, in lines 2 and 3"),
        ("1: x", "--config", "every key must be text"),
        ("log: {? [a] : x}", "log", "every key must be text"),
        ("- state", "--config", "must hold a mapping of keys, not a list"),
        ("state", "--config", "must hold a mapping of keys, not 'state'"),
        ("log: {level: info", "--config", "not YAML in line "),
        ("log: [\n}", "--config", "not YAML in line 2, column 1"),
        ("state: /a\n---\nstate: /b", "--config", "not YAML in line 2"),
        ("state: *a", "--config", "undefined alias"),
        ("state: !!python/name:os.system x", "state", "cannot be read as a value"),
        ("state: !!python/object/apply:os.system [x]", "state", "is not allowed here"),
        ("state: 2001-02-30", "state", "cannot be read as a value"),
        ("state: 2001-02-28", "state", "must be text, not a date, put it in quotes"),
        ("version: !!int x", "version", "cannot be read as a value"),
        ("pools: &a [*a]", "pools.0", "contains it"),
        ("state: " + "[" * 3000, "--config", ""),
        (b"state: \xff\xfe", "--config", "not YAML"),
        (b"state: a\x00", "--config", "not YAML"),
        ("state: /a" + " " * 1024 * 1024, "--config", "more than 1048576 bytes"),
        (
            "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(f"{n}: &{n} [{','.join(['*' + p] * 10)}]\n" for p, n in zip("abcde", "bcdef", strict=True)),
            "--config",
            "more than 100000 values",
        ),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_file_is_refused_with_what_is_wrong_in_it(tmp_path: Path, content: str | bytes, key: str, sense: str) -> None:
    path = text(tmp_path, content)

    faults = refused(path)

    assert key in faults
    assert sense in faults[key]
    assert path in faults[key]


def test_a_file_that_cannot_be_read_is_refused_with_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "no.yaml"

    assert refused(str(missing)) == {"--config": f"cannot read '{missing}': No such file or directory"}
    assert "Is a directory" in refused(str(tmp_path))["--config"]
    assert "cannot read ''" in refused("")["--config"]


def test_without_its_file_a_configuration_is_not_judged_as_a_whole(tmp_path: Path) -> None:
    """The sockets would be the same only because the file that says otherwise is missing."""
    environ = {"MEMIF_DP_CONTROL__SOCKET": "/var/lib/kubelet/pod-resources/kubelet.sock", "MEMIF_DP_LOG__LEVEL": "x"}

    assert list(refused(str(tmp_path / "no.yaml"), environ=environ)) == ["--config", "log.level"]


@pytest.mark.parametrize("content", ["", "# nothing\n", "{}"])
def test_an_empty_file_is_the_default_configuration(tmp_path: Path, content: str) -> None:
    assert load(text(tmp_path, content), environ=NOTHING) == load(environ=NOTHING)


def test_pools_may_share_keys_by_yaml_s_own_means(tmp_path: Path) -> None:
    content = """
pools:
  - &first {resource: example.com/a, capacity: 5, secret_length: 16}
  - <<: *first
    resource: example.com/b
    host_dir: /srv/b
    container_dir: /b
    env_suffix: B
    annotation_prefix: b
"""

    settings = load(text(tmp_path, content), environ=NOTHING)

    assert [(each.resource, each.capacity) for each in settings.pools] == [
        ("example.com/a", 5),
        ("example.com/b", 5),
    ]


def test_a_section_that_is_none_is_told_even_if_the_environment_gives_its_keys(tmp_path: Path) -> None:
    path = written(tmp_path, {"runtime": "docker"})

    assert list(refused(path, environ={"MEMIF_DP_RUNTIME__KIND": "cri"})) == ["runtime"]


def test_the_exception_has_one_line_a_fault() -> None:
    with pytest.raises(InvalidSettings) as caught:
        load(environ={"MEMIF_DP_LOG__LEVEL": "a\nb", "MEMIF_DP_X\n": "", "MEMIF_DP_STATE": "x"})

    assert len(caught.value.faults) == 3
    assert len(str(caught.value).splitlines()) == 3


def test_what_is_printed_gives_the_same_settings(tmp_path: Path) -> None:
    pools = [
        {"resource": "example.com/a", "device_id": "a-{index}", "list_interval": "1500ms", "directory_mode": "0777"},
        {
            "resource": "example.com/b",
            "host_dir": "/srv/#b 😀".replace(" ", ""),
            "container_dir": "/null",
            "socket_name": "~",
            "env_suffix": "0600",
            "annotation_prefix": "on",
            "directory_group": 1000,
            "selinux_label": "a:b:c:s0:c1,c2",
            "numa_node": 0,
        },
    ]
    environ = {
        "MEMIF_DP_POOLS": json.dumps(pools),
        "MEMIF_DP_HTTP__LISTEN": "[::1]:0",
        "MEMIF_DP_RECONCILE__INTERVAL": "2m",
        "MEMIF_DP_CONTROL__GROUP": "yes",
    }
    effective = read(environ=environ)

    printed = show(effective)

    assert printed.isascii()
    assert load(text(tmp_path, printed), environ=NOTHING) == effective.settings


def test_no_pools_are_printed_as_such(tmp_path: Path) -> None:
    effective = read(environ={"MEMIF_DP_POOLS": "[]"})

    assert "pools: []  # MEMIF_DP_POOLS\n" in show(effective)
    assert load(text(tmp_path, show(effective)), environ=NOTHING).pools == ()
