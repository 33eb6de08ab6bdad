"""What `make install` puts on a node, and what systemd thinks of it."""

import configparser
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings, load
from tests.integration.filesystem import needs_root, run, short_place, tmpfs

ROOT = Path(__file__).parents[2]
NAME = "memif-device-plugin"
UNITS = (f"{NAME}.service", "run-contiv-memif.mount")

OWN_CONFIGURATION = "version: 1\npools: []\n"

pytestmark = pytest.mark.skipif(
    not Path(sysconfig.get_path("scripts"), "ruff").exists(), reason="needs the dependency group `dev`"
)


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A prefix into which the program was installed by way of a staging directory, as packages are made."""
    with short_place() as directory:
        stage, prefix = directory / "stage", directory / "usr"
        kept = stage / "etc" / NAME / "plugin.yaml"
        kept.parent.mkdir(parents=True)
        kept.write_text(OWN_CONFIGURATION)
        done = install(f"DESTDIR={stage}", f"PREFIX={prefix}", "SYSCONFDIR=/etc")
        assert done.returncode == 0, done.stderr
        assert not prefix.exists()
        shutil.move(f"{stage}{prefix}", prefix)
        shutil.move(stage / "etc", directory / "etc")
        yield prefix


def install(*variables: str) -> subprocess.CompletedProcess[str]:
    """Run the verb; the environment is the one that runs us, so it must not be made anew under our feet."""
    command = ["make", "--assume-old=venv", "install", *variables]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def unit(name: str, directory: Path = ROOT / "deploy" / "systemd") -> configparser.ConfigParser:
    """Read a unit; all of ours say everything once."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # the documented way
    parser.read_string((directory / name).read_text())
    return parser


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Ask systemd."""
    tool = shutil.which("systemd-analyze")
    if tool is None and os.environ.get("CI") != "true":
        pytest.skip("needs systemd-analyze")
    return subprocess.run([tool or "systemd-analyze", *arguments], capture_output=True, text=True, check=False)


class TestInstall:
    def test_the_command_works_where_the_package_ends_up(self, place: Path) -> None:
        done = subprocess.run([place / "bin" / NAME, "--version"], capture_output=True, text=True, check=False)

        assert (done.returncode, done.stdout.split()[0]) == (0, NAME), done.stderr

    def test_nothing_names_the_staging_directory(self, place: Path) -> None:
        for file in (place / "bin" / NAME, *(place / "lib" / "systemd" / "system").iterdir()):
            assert "stage" not in file.read_text()
            assert not re.search("@[A-Z]+@", file.read_text())

    def test_a_configuration_that_is_there_stays(self, place: Path) -> None:
        assert (place.parent / "etc" / NAME / "plugin.yaml").read_text() == OWN_CONFIGURATION

    def test_the_environment_has_no_installer_and_nothing_that_only_developers_need(self, place: Path) -> None:
        (packages,) = (place / "lib" / NAME / "lib").glob("python3*/site-packages")
        names = {each.name.partition("-")[0].replace("_", "-").lower() for each in packages.glob("*.dist-info")}
        locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))

        assert NAME in names
        assert names - {NAME} <= locked
        assert {"click", "grpcio", "pydantic"} <= names

    def test_a_prefix_that_units_cannot_name_is_refused(self) -> None:
        done = install("PREFIX=here")

        assert done.returncode != 0
        assert "here is not absolute" in done.stderr

    def test_the_configuration_that_is_installed_is_the_default_one(self) -> None:
        assert load(str(ROOT / "deploy" / "systemd" / "plugin.yaml"), environ={}) == Settings()


class TestUnits:
    @pytest.mark.parametrize("name", UNITS)
    def test_systemd_finds_no_fault(self, name: str, place: Path) -> None:
        done = analyze("verify", str(place / "lib" / "systemd" / "system" / name))

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_systemd_finds_the_service_confined(self, place: Path) -> None:
        service = str(place / "lib" / "systemd" / "system" / f"{NAME}.service")
        done = analyze("security", "--offline=true", "--no-pager", "--threshold=30", service)

        assert done.returncode == 0, done.stdout + done.stderr

    def test_the_service_is_up_before_the_kubelet_and_comes_back(self) -> None:
        service = unit(f"{NAME}.service")

        assert service["Unit"]["Before"] == "kubelet.service"
        assert service["Service"]["Type"] == "notify"
        assert service["Service"]["Restart"] == "always"
        assert int(service["Service"]["WatchdogSec"]) >= 20  # what counts as hung shows after nine seconds

    def test_the_service_may_write_wherever_the_defaults_are(self) -> None:
        service, settings = unit(f"{NAME}.service")["Service"], Settings()
        writable = [
            *service["ReadWritePaths"].split(),
            f"/var/lib/{service['StateDirectory']}",
            f"/run/{service['RuntimeDirectory']}",
        ]
        needed = (
            settings.pools[0].host_dir.replace("/var/run/", "/run/"),
            settings.kubelet.plugin_dir,
            settings.state,
            settings.control.socket,
        )

        for path in needed:
            assert any(Path(path).is_relative_to(each) for each in writable), path

    def test_the_group_bit_of_directories_is_not_forbidden(self) -> None:
        assert "RestrictSUIDSGID" not in unit(f"{NAME}.service")["Service"]

    def test_places_that_systemd_binds_are_made_beforehand(self) -> None:
        made = (ROOT / "deploy" / "systemd" / f"{NAME}.tmpfiles").read_text()

        for path in unit(f"{NAME}.service")["Service"]["ReadWritePaths"].split():
            assert re.search(rf"^d {path} ", made, re.MULTILINE), path


class TestMount:
    def test_it_is_for_the_default_base_directory(self) -> None:
        assert unit(UNITS[1])["Mount"]["Where"] == Settings().pools[0].host_dir.replace("/var/run/", "/run/")

    def test_it_never_hides_the_directories_of_running_pods(self) -> None:
        assert unit(UNITS[1])["Unit"]["ConditionDirectoryNotEmpty"] == "!/run/contiv/memif"

    @needs_root
    def test_the_kernel_takes_its_options_and_bounds_space_and_inodes(self) -> None:
        options = unit(UNITS[1])["Mount"]["Options"]
        with short_place() as directory, tmpfs(directory / "memif", options) as mounted:
            limits = os.statvfs(mounted)

            assert limits.f_blocks * limits.f_frsize == 64 << 20
            assert limits.f_files == 64 << 10
            for flag in (os.ST_NOSUID, os.ST_NODEV, os.ST_NOEXEC):
                assert limits.f_flag & flag
            assert mounted.stat().st_mode & 0o7777 == 0o711
            with pytest.raises(PermissionError):
                run(str(shutil.copy("/bin/true", mounted / "true")))
