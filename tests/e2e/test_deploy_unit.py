"""The daemon bears what its systemd unit takes from it, as far as a process can be given that without systemd."""

import os
import sys
from pathlib import Path

from tests.e2e.daemon import RESOURCE, a_stand, needs_root, soon
from tests.integration.nodes import app, pod

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "memif-device-plugin.service"
GROUP, TENANT = 64599, 1000

NO_WRITABLE_CODE = """\
import ctypes, os, sys
PR_SET_MDWE, REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0):
    print("this kernel does not know it", file=sys.stderr)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Has the kernel refuse what ``MemoryDenyWriteExecute=`` refuses, then starts a program."""


def setting(name: str) -> str:
    """Return what the unit says."""
    (value,) = [line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith(f"{name}=")]
    return value


def as_the_unit_does() -> tuple[str, ...]:
    """Return what starts a program with the rights that the unit leaves it."""
    kept = ",".join(f"+{name.removeprefix('CAP_').lower()}" for name in setting("CapabilityBoundingSet").split())
    assert (setting("NoNewPrivileges"), setting("MemoryDenyWriteExecute")) == ("yes", "yes")
    rights = ("setpriv", f"--bounding-set=-all,{kept}", "--no-new-privs")
    return (*rights, sys.executable, "-c", NO_WRITABLE_CODE)


@needs_root
async def test_an_allocation_lives_its_whole_life_under_it() -> None:
    async with a_stand() as stand:
        stand.pool["directory_group"] = GROUP
        daemon = await stand.run(through=as_the_unit_does())
        await daemon.registered()
        await stand.node.wait_registered(RESOURCE)
        one = await stand.node.start(pod("one", app("a", 1, RESOURCE)))
        (name,) = stand.directories
        found = (stand.host_dir / name).stat()
        assert (found.st_gid, found.st_mode & 0o7777) == (GROUP, 0o2770)

        left = stand.host_dir / name / "left"
        left.mkdir(mode=0o700)
        (left / "file").touch()
        os.chown(left, TENANT, TENANT)
        await stand.node.delete(one)
        await daemon.says("released")
        await soon(lambda: stand.directories == set())

        assert daemon.warnings == []
        assert await daemon.stop() == 0
