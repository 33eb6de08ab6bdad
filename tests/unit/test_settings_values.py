"""What a single value may be: the exact key of every refusal, and the sense of its text."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings_judging import accepted, pool, refused, written

REFUSED_IN_A_POOL: list[tuple[str, Any, str]] = [
    ("resource", "memif", "must have a domain"),
    ("resource", "kubernetes.io/memif", "reserved for Kubernetes"),
    ("resource", "Example.com/memif", "lower-case"),
    ("resource", 5, "must be text, not 5, put it in quotes"),
    ("resource", None, "must be text, not null"),
    ("capacity", 0, "must be at least 1, not 0"),
    ("capacity", -5, "must be at least 1, not -5"),
    ("capacity", "100", "must be a whole number, not '100'"),
    ("capacity", 10.0, "must be a whole number, not 10.0"),
    ("capacity", True, "must be a whole number, not true"),
    ("capacity", 10**30, "a number of more than 18 digits"),
    ("capacity", 10**5000, "cannot be read as a value"),
    ("device_id", "{resource}/x", "must contain {index}"),
    ("device_id", "{pool}/{index}", "must have no braces but"),
    ("device_id", "{{index}}", "must have no braces but"),
    ("device_id", "memif {index}", "without spaces"),
    ("device_id", "memif,{index}", "commas"),
    ("device_id", "mémif-{index}", "ASCII"),
    ("host_dir", "run/memif", "must be an absolute path"),
    ("host_dir", "", "must be an absolute path"),
    ("host_dir", "/srv/../etc", "without '.', '..', '//'"),
    ("host_dir", "/srv//memif", "without '.', '..', '//'"),
    ("host_dir", "//srv/memif", "without '.', '..', '//'"),
    ("host_dir", "/srv/memif/", "a slash at the end"),
    ("host_dir", "/srv/a:b", "without spaces, colons and commas"),
    ("host_dir", "/srv/a\nb", "printable"),
    ("host_dir", "/" + "x" * 256, "255 bytes"),
    ("host_dir", "/", "others share"),
    ("host_dir", "/run", "others share"),
    ("host_dir", "/var/run", "others share"),
    ("host_dir", "/var/lib", "others share"),
    ("host_dir", "/tmp", "others share"),
    ("container_dir", "/", "the container's root"),
    ("container_dir", "vpp", "must be an absolute path"),
    ("container_dir", "/run/vpp/", "a slash at the end"),
    ("socket_name", "a/b.sock", "must be a plain file name"),
    ("socket_name", "", "must be a plain file name"),
    ("socket_name", "..", "must be a plain file name"),
    ("socket_name", "a b", "without spaces"),
    ("socket_name", "a\x00b", "printable"),
    ("env_suffix", "-A", "letters, digits and underscores"),
    ("env_suffix", "=x", "letters, digits and underscores"),
    ("env_suffix", 2, "put it in quotes"),
    ("annotation_prefix", "", "must make annotation keys"),
    ("annotation_prefix", "-x", "must make annotation keys"),
    ("annotation_prefix", "a b", "must make annotation keys"),
    ("annotation_prefix", "x" * 47, "has 64 characters"),
    ("annotation_prefix", "a/b/c", "domain before the slash"),
    ("annotation_prefix", "Example.com/x", "domain before the slash"),
    ("annotation_prefix", "/x", "domain before the slash"),
    ("annotation_prefix", "kubernetes.io/x", "Kubernetes' own"),
    ("annotation_prefix", "net.kubernetes.io/x", "Kubernetes' own"),
    ("annotation_prefix", "io.kubernetes", "Kubernetes' own"),
    ("annotation_prefix", "io.kubernetes.container", "Kubernetes' own"),
    ("directory_mode", 2770, "in quotes"),
    ("directory_mode", "rwx", "octal permission bits"),
    ("directory_mode", "2870", "octal permission bits"),
    ("directory_mode", "", "octal permission bits"),
    ("directory_mode", True, "octal permission bits"),
    ("directory_mode", "17770", "at most 7777"),
    ("directory_mode", "2670", "must let the owner read, write and enter"),
    ("directory_group", "", "group's name or number"),
    ("directory_group", "a b", "group's name or number"),
    ("directory_group", -1, "from 0 to"),
    ("directory_group", 2**32 - 1, "from 0 to"),
    ("directory_group", "4294967295", "from 0 to"),
    ("directory_group", True, "group's name or number"),
    ("directory_group", [0], "group's name or number, not a list"),
    ("selinux_label", "container_file_t", "user:role:type:level"),
    ("selinux_label", "", "user:role:type:level"),
    ("selinux_label", "a:b:c", "user:role:type:level"),
    ("secret_length", 15, "from 16 to 23, not 15"),
    ("secret_length", 24, "from 16 to 23, not 24"),
    ("secret_delivery", "mail", "must be env, file or both, not 'mail'"),
    ("secret_delivery", None, "must be env, file or both, not null"),
    ("pod_file", "true", "must be true or false, not 'true'"),
    ("pod_env_extra", 1, "must be true or false, not 1"),
    ("read_only_mount", None, "must be true or false, not null"),
    ("numa_node", -1, "leave it out"),
    ("numa_node", 1024, "at most 1023"),
    ("numa_node", "0", "must be a whole number"),
    ("list_interval", 20, "must have a unit"),
    ("list_interval", "999ms", "at least 1s"),
    ("list_interval", "-1s", "whole number and a unit"),
    ("device_info_dir", "devinfo", "absolute path"),
]

REFUSED: list[tuple[str, str, Any, str]] = [
    ("", "version", 2, "must be 1"),
    ("", "version", True, "must be a whole number, not true"),
    ("", "version", "1", "must be a whole number"),
    ("", "pools", {}, "must be a list, not a mapping"),
    ("", "pools", None, "must be a list, not null"),
    ("", "pools", "memif", "must be a list, not 'memif'"),
    ("", "state", "state.db", "must be an absolute path"),
    ("", "state", "/var/lib/x/", "a slash at the end"),
    ("", "drain_on_exit", "no", "must be true or false"),
    ("", "runtime", "docker", "must be a mapping, not 'docker'"),
    ("", "http", None, "must be a mapping, not null"),
    ("", "log", [], "must be a mapping, not a list"),
    ("runtime", "kind", "rkt", "must be auto, docker, containerd, cri or memory, not 'rkt'"),
    ("runtime", "kind", "Docker", "not 'Docker'"),
    ("runtime", "endpoint", "/run/docker.sock", "must be unix:// and an absolute path"),
    ("runtime", "endpoint", "tcp://1.2.3.4:2375", "must be unix:// and an absolute path"),
    ("runtime", "endpoint", "unix://docker.sock", "must be an absolute path"),
    ("runtime", "endpoint", "", "must be unix:// and an absolute path"),
    ("runtime", "containerd_namespace", "", "namespace"),
    ("runtime", "containerd_namespace", "a/b", "namespace"),
    ("kubelet", "plugin_dir", "x", "must be an absolute path"),
    ("kubelet", "socket", "a/b", "plain file name"),
    ("kubelet", "endpoint", "contiv", "ends in .sock"),
    ("kubelet", "endpoint", ".sock", "ends in .sock"),
    ("kubelet", "endpoint", "a/b.sock", "plain file name"),
    ("kubelet", "pod_resources", "/" + "y" * 107, "has 108 bytes, a socket's path may have 107"),
    ("control", "socket", "control.sock", "must be an absolute path"),
    ("control", "socket", "/" + "y" * 107, "has 108 bytes, a socket's path may have 107"),
    ("control", "mode", 600, "in quotes"),
    ("control", "mode", "0400", "must let the owner read and write"),
    ("control", "mode", "0666", "must give others nothing"),
    ("control", "group", "a:b", "group's name or number"),
    ("control", "agent_socket", "/" + "y" * 107, "has 108 bytes"),
    ("control", "agent_group", "a:b", "group's name or number"),
    ("http", "listen", "9599", "must be host:port"),
    ("http", "listen", ":9599", "must be host:port"),
    ("http", "listen", "127.0.0.1", "must be host:port"),
    ("http", "listen", "127.0.0.1:http", "must be host:port"),
    ("http", "listen", "", "null to switch it off"),
    ("http", "listen", "127.0.0.1:65536", "a port from 0 to 65535"),
    ("http", "listen", "127.0.0.1:" + "9" * 5000, "a port from 0 to 65535"),
    ("http", "listen", "::1:9599", "IPv6 address in brackets"),
    ("http", "listen", "[localhost]:9599", "IPv6 address between the brackets"),
    ("http", "listen", "999.0.0.1:9599", "host name or address"),
    ("http", "listen", "a_b/c:9599", "host name or address"),
    ("http", "listen", False, "must be text, not false"),
    ("reconcile", "interval", "0s", "must be at least 1s, not 0s"),
    ("reconcile", "interval", 30, "must have a unit"),
    ("reconcile", "grace", "-5s", "whole number and a unit"),
    ("reconcile", "grace", "soon", "whole number and a unit"),
    ("log", "level", "INFO", "must be debug, info, warning or error, not 'INFO'"),
    ("log", "format", "xml", "must be json or console, not 'xml'"),
]


def short(value: object) -> str:
    return repr(value)[:24] if not isinstance(value, int) or abs(value) < 10**30 else "huge"


@pytest.mark.parametrize("key,value,sense", REFUSED_IN_A_POOL, ids=short)
def test_a_pool_is_refused_with_the_key_of_the_value(tmp_path: Path, key: str, value: object, sense: str) -> None:
    if value == 10**5000:
        path = tmp_path / "plugin.yaml"
        path.write_text(f"pools:\n- capacity: 1{'0' * 5000}\n", encoding="utf-8")
        faults = refused(str(path))
    else:
        faults = refused(written(tmp_path, pool(**{key: value})))

    assert list(faults) == [f"pools.0.{key}"]
    assert sense in faults[f"pools.0.{key}"]


@pytest.mark.parametrize("section,key,value,sense", REFUSED, ids=short)
def test_a_value_is_refused_with_its_key(tmp_path: Path, section: str, key: str, value: object, sense: str) -> None:
    content = {section: {key: value}} if section else {key: value}

    faults = refused(written(tmp_path, content))

    name = f"{section}.{key}" if section else key
    assert list(faults) == [name]
    assert sense in faults[name]


@pytest.mark.parametrize(
    "keys",
    [
        {"annotation_prefix": "x" * 46},
        {"annotation_prefix": "example.com/memif"},
        {"annotation_prefix": "notkubernetes.io/x"},
        {"directory_mode": "0777"},
        {"directory_group": 1000},
        {"directory_group": "vpp"},
        {"selinux_label": "system_u:object_r:container_file_t:s0:c1,c2"},
        {"selinux_label": "none"},
        {"secret_length": 16},
        {"secret_length": 23},
        {"numa_node": 0},
        {"numa_node": None},
        {"list_interval": "1s"},
        {"list_interval": 0},
        {"device_id": "{index}"},
        {"device_id": "x" * 200 + "{index}{index}"},
        {"socket_name": "secret"},
        {"host_dir": "/run/memif"},
    ],
    ids=short,
)
def test_a_pool_at_the_edge_of_what_is_possible_is_accepted(tmp_path: Path, keys: dict[str, Any]) -> None:
    assert len(accepted(tmp_path, pool(**keys)).pools) == 1


def test_a_group_is_a_name_or_a_number_also_where_only_text_can_be_given(tmp_path: Path) -> None:
    assert accepted(tmp_path, {"control": {"group": "1000"}}).control.group == 1000
    assert accepted(tmp_path, {"control": {"group": 1000}}).control.group == 1000
    assert accepted(tmp_path, {"control": {"group": "vpp"}}).control.group == "vpp"


@pytest.mark.parametrize(
    "listen,address",
    [
        ("10.0.0.1:9599", ("10.0.0.1", 9599)),
        ("[::]:9599", ("::", 9599)),
        ("node-1.example.com:1", ("node-1.example.com", 1)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        (None, None),
    ],
)
def test_an_address_is_split_into_host_and_port(
    tmp_path: Path, listen: str | None, address: tuple[str, int] | None
) -> None:
    assert accepted(tmp_path, {"http": {"listen": listen}}).http.address == address
