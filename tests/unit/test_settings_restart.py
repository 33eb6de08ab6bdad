"""Which keys of a changed configuration a running daemon takes over."""

import json
from pathlib import Path

import pytest

from app.settings import Effective, read
from app.settings.faults import dotted
from app.settings.model import leaves
from app.settings.restart import TAKEN_OVER, changed, restart_needed

BEFORE = read(environ={}).settings


def after(path: Path, content: object, **environ: str) -> Effective:
    """Read a configuration from a file."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return read(str(path), environ=environ)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plugin.yaml"


def test_the_same_configuration_needs_nothing(path: Path) -> None:
    found = after(path, {"version": 1, "reconcile": {"interval": "30s"}})

    assert changed(BEFORE, found.settings) == ()
    assert restart_needed(BEFORE, found) == ()


def test_what_can_be_taken_over_needs_no_restart(path: Path) -> None:
    found = after(path, {"pools": [], "log": {"level": "debug", "format": "console"}, "drain_on_exit": True})

    assert {dotted(key) for key in changed(BEFORE, found.settings)} == {
        "pools",
        "log.level",
        "log.format",
        "drain_on_exit",
    }
    assert restart_needed(BEFORE, found) == ()


@pytest.mark.parametrize(
    "content, told",
    [
        ({"runtime": {"kind": "docker"}}, "runtime.kind: needs a restart to change from 'auto' to 'docker'"),
        ({"control": {"mode": "0660"}}, "control.mode: needs a restart to change from '0600' to '0660'"),
        ({"http": {"listen": None}}, "http.listen: needs a restart to change from '127.0.0.1:9599' to null"),
        ({"reconcile": {"grace": "5s"}}, "reconcile.grace: needs a restart to change from '30s' to '5s'"),
        (
            {"kubelet": {"socket": "k.sock"}},
            "kubelet.socket: needs a restart to change from 'kubelet.sock' to 'k.sock'",
        ),
    ],
)
def test_what_cannot_be_taken_over_is_named_in_the_words_of_the_file(path: Path, content: object, told: str) -> None:
    (fault,) = restart_needed(BEFORE, after(path, content))

    assert str(fault).startswith(told)
    assert str(path) in str(fault)


def test_a_variable_is_named_as_the_place_too(path: Path) -> None:
    (fault,) = restart_needed(BEFORE, after(path, {}, MEMIF_DP_STATE="/srv/state.db"))

    assert str(fault).endswith("(MEMIF_DP_STATE)")


def test_every_key_that_is_taken_over_exists() -> None:
    assert {key for key, _ in leaves()} >= TAKEN_OVER
