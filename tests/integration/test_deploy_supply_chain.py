"""What is delivered is known: by hash, by name, and by what is known against it."""

import json
import re
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import audit

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9-]+)==([^ ;]+)", re.MULTILINE)

pytestmark = pytest.mark.skipif(
    not Path(sysconfig.get_path("scripts"), "cyclonedx-py").exists(), reason="needs the dependency group `dev`"
)


def locked(name: str) -> set[tuple[str, str]]:
    """The names and versions that a lock file pins."""
    return set(PIN.findall((ROOT / name).read_text()))


class TestLocks:
    @pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock", "requirements-dev.lock"])
    def test_every_package_is_pinned_with_hashes(self, name: str) -> None:
        entries = re.split(r"\n(?=[a-z])", (ROOT / name).read_text())
        pinned = [entry for entry in entries if PIN.match(entry)]

        assert len(pinned) > 3
        assert all("--hash=sha256:" in entry for entry in pinned)

    @pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
    def test_what_is_delivered_is_what_was_tested(self, name: str) -> None:
        assert locked(name) <= locked("requirements-dev.lock")


class TestBillOfMaterials:
    def test_it_lists_every_locked_package_with_its_hashes_and_us(self) -> None:
        # The environment is the one that runs us; it must not be made anew under our feet.
        command = ["make", "--assume-old=venv", "sbom"]
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        bill = json.loads((ROOT / "build" / "sbom.json").read_text())

        assert bill["bomFormat"] == "CycloneDX"
        assert bill["metadata"]["component"]["name"] == "memif-device-plugin"
        assert {(each["name"], each["version"]) for each in bill["components"]} == locked("requirements.lock")
        for component in bill["components"]:
            (distribution,) = component["externalReferences"]
            assert {each["alg"] for each in distribution["hashes"]} == {"SHA-256"}


def package(**more: object) -> dict[str, object]:
    return {"name": "click", "version": "8.5.1", **more}


def report(*dependencies: Mapping[str, object]) -> str:
    return json.dumps({"dependencies": dependencies, "fixes": []})


SOUND = package(vulns=[])
VULNERABLE = package(vulns=[{"id": "PYSEC-2026-1", "fix_versions": ["8.5.2"], "aliases": [], "description": "…"}])
UNHEARD_OF = {"name": "grpcio", "skip_reason": "Dependency not found on PyPI and could not be audited"}


class TestAudit:
    def test_it_succeeds_where_nothing_is_known(self) -> None:
        assert audit.judged(report(SOUND), "") == (0, ["nothing is known against 1 packages of requirements.lock"])

    def test_it_says_of_what_there_is_no_data(self) -> None:
        status, (line,) = audit.judged(report(SOUND, UNHEARD_OF), "")

        assert (status, line.endswith("; there is no data of grpcio")) == (0, True)

    def test_a_finding_fails_and_is_named_with_its_cure(self) -> None:
        status, (line, cure) = audit.judged(report(UNHEARD_OF, VULNERABLE), "")

        assert status == 1
        assert line == "click 8.5.1: PYSEC-2026-1; mended in 8.5.2"
        assert "make lock UPGRADE=1" in cure

    def test_a_registry_without_data_is_no_success_in_disguise(self) -> None:
        status, (line,) = audit.judged(report(UNHEARD_OF, UNHEARD_OF), "No known vulnerabilities found")

        assert (status, line.startswith("NOT AUDITED")) == (0, True)

    @pytest.mark.parametrize("sign", audit.UNREACHABLE)
    def test_a_feed_that_is_away_fails_no_change(self, sign: str) -> None:
        status, (line,) = audit.judged("", f"Traceback …\n{sign}ConnectionError: no route to host\n")

        assert (status, line.startswith("NOT AUDITED")) == (0, True)

    @pytest.mark.parametrize("text", ["", "[]", "{}", "null", "not JSON"])
    def test_a_broken_tool_is_no_success(self, text: str) -> None:
        assert audit.judged(text, "usage: pip-audit\nerror: no such option") == (
            2,
            ["pip-audit failed: error: no such option"],
        )

    def test_the_verb_fails_when_the_tool_finds_something(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        tool = tmp_path / "pip-audit"
        tool.write_text(f"#!/bin/sh\necho '{report(VULNERABLE)}'\nexit 1\n")
        tool.chmod(0o755)
        monkeypatch.setattr(audit, "TOOL", tool)

        assert audit.main() == 1
        assert "audit: click 8.5.1: PYSEC-2026-1" in capsys.readouterr().err

    def test_a_missing_tool_is_said(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(audit, "TOOL", tmp_path / "pip-audit")

        assert audit.main() == 2
        assert "install the dependency group `dev`" in capsys.readouterr().err

    def test_what_is_ignored_is_ignored_for_a_reason(self) -> None:
        assert all(len(reason) > 20 for reason in audit.IGNORED.values())


def test_the_licence_is_delivered() -> None:
    text = (ROOT / "LICENSE").read_text()

    assert "Apache License" in text
    assert "Version 2.0" in text
