"""The doctor at a node whose base directory lies in the wrong place, for real."""

import os
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from adapters.filesystem import labels
from adapters.filesystem.survey import survey as survey_base
from app.doctor import examination
from domain.diagnosis import places
from domain.pool import DirectoryRules
from domain.ports.worker import OverBudget
from tests.integration.filesystem import mounted, needs_root, run, tmpfs
from tests.integration.ward import OWN, Ward, a_ward, line

pytestmark = needs_root


@pytest.fixture
async def ward() -> AsyncIterator[Ward]:
    async with a_ward() as made:
        yield made


class TestTheBaseDirectory:
    async def test_it_is_a_symlink(self, ward: Ward) -> None:
        ward.host_dir.symlink_to("/tmp")

        found = await line(ward.settings(), "base directory")

        assert f"{ward.host_dir} is a symbolic link to '/tmp', which could be pointed elsewhere" in found

    async def test_others_may_write_to_it(self, ward: Ward) -> None:
        ward.host_dir.mkdir()
        ward.host_dir.chmod(0o777)

        found = await line(ward.settings(), "base directory")

        assert found.endswith(f". Cure: chmod go-w {ward.host_dir}")

    async def test_it_is_read_only(self, ward: Ward) -> None:
        ward.host_dir.mkdir()
        run("mount", "-o", "remount,ro", str(ward.host_dir.parent))

        assert f"the file system of {ward.host_dir} is read-only. Cure: remount" in await line(
            ward.settings(), "base directory"
        )

    async def test_its_file_system_is_a_container_s_own(self, ward: Ward) -> None:
        place = ward.stand.root / "layers"
        for name in ("lower", "upper", "work", "merged"):
            (place / name).mkdir(parents=True)
        # Some file systems cannot be layers of an overlay; one in memory can.
        with tmpfs(place / "upper") as upper:
            (upper / "up").mkdir()
            (upper / "work").mkdir()
            layers = f"lowerdir={place / 'lower'},upperdir={upper / 'up'},workdir={upper / 'work'}"
            with mounted(place / "merged", "-t", "overlay", "-o", layers, "overlay") as merged:
                settings = ward.stand.settings(host_dir=str(merged / "contiv" / "memif"))
                found = await line(settings, "file system")

        assert found.startswith(f"fail  file system: {merged}/contiv/memif lies on an overlay at {merged}")
        assert f"mount the node's {merged}/contiv into the daemon's container" in found

    @pytest.mark.parametrize(
        "options, check, what",
        [
            ("size=1m,nr_inodes=1k", "mount options", "is mounted without nosuid and nodev"),
            ("size=1m,nr_inodes=1k,nodev", "mount options", "is mounted without nosuid:"),
            ("size=0,nr_inodes=1k", "limits", "has no size limit"),
            ("size=1m,nr_inodes=0", "limits", "has no limit of inodes"),
        ],
    )
    async def test_its_mount_lacks_options(self, ward: Ward, options: str, check: str, what: str) -> None:
        with tmpfs(ward.stand.root / "bare", options) as place:
            found = await line(ward.stand.settings(host_dir=str(place / "memif")), check)

        assert found.startswith(f"warn  {check}: ")
        assert what in found

    async def test_it_shares_a_file_system_with_others(self, ward: Ward) -> None:
        part = ward.host_dir.parent / "part"
        part.mkdir()
        with mounted(ward.stand.root / "bound", "--bind", str(part)) as bound:
            found = await line(ward.stand.settings(host_dir=str(bound / "memif")), "limits")

        assert "shares its file system with others, so a pod can fill it for everybody" in found

    async def test_a_mount_point_with_a_space_in_its_name_is_understood(self, ward: Ward) -> None:
        with tmpfs(ward.stand.root / "a place", OWN) as place:
            facts = survey_base(str(place / "memif"), DirectoryRules())

        assert facts.mount is not None
        assert facts.mount.point == str(place)

    async def test_there_is_no_space(self, ward: Ward) -> None:
        with suppress(OSError):
            (ward.host_dir.parent / "fill").write_bytes(b"x" * 2**21)

        found = await line(ward.settings(), "room")

        assert found.startswith(f"fail  room: 0.0% of the space is left for {ward.host_dir}, and 5% is the least")

    async def test_there_are_no_inodes(self, ward: Ward) -> None:
        with suppress(OSError):
            for number in count():
                (ward.host_dir.parent / str(number)).touch()

        assert "0.0% of the inodes is left" in await line(ward.settings(), "room")

    async def test_it_hangs(self, ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
        def hang(host_dir: str, _: DirectoryRules) -> None:
            raise OverBudget(f"looking at {host_dir}", 3.0)

        monkeypatch.setattr(examination, "survey_base", hang)

        found = await line(ward.settings(), "storage")

        assert f"fail  storage: looking at {ward.host_dir} took longer than 3 s" in found


class TestSelinux:
    """The kernel here need not have it, so its file system is played; the attribute is a real one."""

    @pytest.fixture(autouse=True)
    def _enforcing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "enforce").write_text("1", encoding="ascii")
        monkeypatch.setattr(labels, "SELINUXFS", str(tmp_path))

    async def test_the_pool_wants_no_label(self, ward: Ward) -> None:
        settings = ward.stand.settings(host_dir=str(ward.host_dir), selinux_label="none")

        assert "selinux_label of" in await line(settings, "SELinux")

    async def test_the_file_system_holds_none(self, ward: Ward) -> None:
        ward.host_dir.mkdir()

        assert f"the file system of {ward.host_dir} holds no labels" in await line(ward.settings(), "SELinux")

    async def test_it_does_not_enforce(self, ward: Ward, tmp_path: Path) -> None:
        (tmp_path / "enforce").write_text("0", encoding="ascii")

        assert await line(ward.settings(), "SELinux") == "ok    SELinux: not enforcing"

    async def test_directories_without_their_label_are_named(self, ward: Ward) -> None:
        good, bad = "b" * 20, "c" * 20
        for name, label in ((good, labels.CONTAINER_FILE), (bad, "system_u:object_r:var_run_t:s0")):
            (ward.host_dir / name).mkdir(parents=True)
            os.setxattr(ward.host_dir / name, labels.ATTRIBUTE, label.encode())
        ward.host_dir.chmod(0o711)

        facts = survey_base(str(ward.host_dir), DirectoryRules())

        assert facts.selinux is not None
        assert facts.selinux.bare == (bad,)
        assert [each.check for each in places.judge(facts)][-1] == "SELinux"
