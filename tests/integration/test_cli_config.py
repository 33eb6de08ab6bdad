"""The command line as a process: what is printed where, and the exit code."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from app.cli import ExitCode, main
from app.cli.configuration import _OPTIONS, Given, configured
from app.settings import LogFormat, LogLevel, RuntimeKind, load
from app.settings.layers import FLAGS


def run(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run the program as a process of its own, with nothing of ours in its environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MEMIF_DP_")}
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, prog_name="memif-device-plugin")


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("MEMIF_DP_"):
            monkeypatch.delenv(name)


def test_a_valid_configuration_is_said_to_be_valid() -> None:
    done = run("validate")

    assert (done.returncode, done.stdout, done.stderr) == (0, "configuration is valid\n", "")


def test_every_fault_is_one_line_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "plugin.yaml"
    path.write_text("pools:\n- capacity: 0\n", encoding="utf-8")

    done = run("validate", "--config", str(path), "--state", "x", MEMIF_DP_LOG__LEVEL="loud")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"pools.0.capacity: must be at least 1, not 0 ({path} line 2)",
        "state: must be an absolute path, not 'x' (--state)",
        "log.level: must be debug, info, warning or error, not 'loud' (MEMIF_DP_LOG__LEVEL)",
    ]


def test_the_configuration_is_printed_with_the_source_of_each_value(tmp_path: Path) -> None:
    path = tmp_path / "plugin.yaml"
    path.write_text("pools:\n- capacity: 7\n", encoding="utf-8")

    done = run("config", "--config", str(path), "--log-level", "debug", MEMIF_DP_LOG__FORMAT="console")

    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert "    capacity: 7  # file" in lines
    assert "  level: debug  # --log-level" in lines
    assert "  format: console  # MEMIF_DP_LOG__FORMAT" in lines
    assert "version: 1  # default" in lines


def test_the_printed_configuration_is_valid_and_the_same(tmp_path: Path) -> None:
    path = tmp_path / "plugin.yaml"
    path.write_text(invoke("config", "--runtime", "cri").stdout, encoding="utf-8")

    again = invoke("validate", "--config", str(path))

    assert again.exit_code == 0
    assert load(str(path), environ={}) == load(flags={"--runtime": "cri"}, environ={})


def test_an_invalid_configuration_is_not_printed() -> None:
    result = invoke("config", "--runtime", "rkt")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == "runtime.kind: must be auto, docker, containerd, cri or memory, not 'rkt' (--runtime)\n"


def test_bytes_that_are_no_text_are_a_fault_like_any_other() -> None:
    environment = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
    done = subprocess.run(
        [sys.executable, "-m", "app", "validate"],
        env=environment | {b"MEMIF_DP_STATE": b"/srv/\xff", b"MEMIF_DP_\xfe": b"\xff"},
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    "arguments,sense",
    [
        ((), "Missing command"),
        (("dance",), "No such command 'dance'"),
        (("validate", "--dance"), "No such option"),
        (("validate", "--config"), "requires an argument"),
        (("validate", "dance"), "unexpected extra argument"),
    ],
)
def test_a_command_line_that_is_not_understood_is_told_in_one_line(arguments: tuple[str, ...], sense: str) -> None:
    result = invoke(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert sense in result.stderr
    assert "--help" in result.stderr


def test_the_version_is_that_of_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", {"memif-device-plugin": "1.2.3"}.__getitem__)

    result = invoke("--version")

    assert (result.exit_code, result.stdout) == (0, "memif-device-plugin 1.2.3\n")


def test_without_an_installed_distribution_the_version_is_told_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)

    result = invoke("--version")

    assert result.exit_code == 1
    assert "not installed" in result.stderr


def test_help_is_on_stdout() -> None:
    result = invoke("validate", "-h")

    assert result.exit_code == 0
    assert all(option in result.stdout for option in _OPTIONS)


def test_the_flags_and_their_help_are_those_that_the_settings_know() -> None:
    assert set(_OPTIONS) == {"--config", *FLAGS}
    for option, choices in {"--runtime": RuntimeKind, "--log-level": LogLevel, "--log-format": LogFormat}.items():
        assert all(choice in _OPTIONS[option][1] for choice in choices)


def test_a_command_may_have_some_of_the_flags_and_others_of_its_own() -> None:
    seen = []

    @click.command()
    @configured("--config", "--state")
    @click.option("--take-over", is_flag=True)
    def command(given: Given, *, take_over: bool) -> None:
        seen.append((given, take_over))

    done = CliRunner().invoke(command, ["--state", "/x", "--take-over"])
    unknown = CliRunner().invoke(command, ["--runtime", "cri"])

    assert done.exit_code == 0
    assert seen == [(Given(config=None, flags={"--state": "/x"}), True)]
    assert unknown.exit_code == ExitCode.BAD_CONFIGURATION


def test_the_command_line_is_imported_without_the_libraries_of_its_commands() -> None:
    """Help, mistakes and completion are answered at once."""
    heavy = ("grpc", "pydantic", "dependency_injector", "yaml", "asyncio", "structlog", "docker")
    code = f"import sys, app.cli; print([name for name in {heavy!r} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "[]\n"


def test_settings_without_a_file_cost_no_yaml_parser() -> None:
    code = "import sys; from app.settings import load; load(environ={}); print('yaml' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "False\n"
