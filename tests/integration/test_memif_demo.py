"""The demo's scene of memif: both ends come up with what each of them was told, and only then."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from adapters.memif.errors import Refused
from adapters.memory.node import Container, ContainerSpec
from app import demo_memif
from app.cli import main
from domain.allocation import Allocation
from domain.identity import AllocationId, DeviceId
from domain.pool import Pool
from domain.resource import ResourceName
from domain.secret import Secret
from tests.integration.memif import SECRET, WRONG, workdir

ID = AllocationId("bcdfghjklmnpqrstvwxz")


class Heard:
    """A stage that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.checks: list[tuple[bool, str]] = []

    def line(self, text: str) -> None:
        self.lines.append(text)

    def check(self, holds: bool, text: str) -> None:  # noqa: FBT001 -- as the stage has it
        self.checks.append((holds, text))


@pytest.fixture
def allocation() -> Iterator[Allocation]:
    resource = ResourceName("contivpp.io/memif")
    with workdir() as host_dir:
        Path(host_dir, ID).mkdir()
        yield Allocation(
            id=ID,
            resource=resource,
            devices=(DeviceId("a"), DeviceId("b")),
            host_dir=host_dir,
            container_dir="/run/vpp",
            socket_name="memif.sock",
            rules=Pool(resource=resource).directory,
            secret=SECRET,
            granted=datetime.now(UTC),
        )


def a_container(allocation: Allocation, secret: Secret) -> Container:
    return Container(
        spec=ContainerSpec(name="dataplane"),
        env={"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": secret.reveal()},
        mounts={"/run/vpp": allocation.directory.path},
    )


async def test_each_device_has_a_link_until_the_scene_ends(allocation: Allocation) -> None:
    heard = Heard()

    async with demo_memif.linked(heard, allocation, a_container(allocation, SECRET)) as links:
        up = links.up
        ids = list(links.server.links)

    assert up
    assert not links.up
    assert ids == [1, 2]
    assert [holds for holds, _ in heard.checks] == [True] * 3
    assert "'incorrect secret'" in heard.checks[0][1]
    assert SECRET.reveal() not in f"{heard.lines}{heard.checks}"


async def test_a_pod_that_was_given_another_secret_than_the_dataplane_gets_no_link(allocation: Allocation) -> None:
    with pytest.raises(Refused, match="incorrect secret"):
        async with demo_memif.linked(Heard(), allocation, a_container(allocation, WRONG)):
            pass


def test_the_demo_shows_both_links_up_and_still_up_after_the_kubelets_restart() -> None:
    result = CliRunner().invoke(main, ["demo"])

    assert result.exit_code == 0, result.output
    said = re.findall(r"^  ok (.*)$", result.output, flags=re.MULTILINE)
    assert "memif id 1 is up: memif0/1 <-> pod" in said
    assert "memif id 2 is up: memif0/2 <-> pod" in said
    assert "a client with another secret is turned away: demo dataplane says 'incorrect secret'" in said
    assert said.index("memif id 2 is up: memif0/2 <-> pod") < said.index("the memif links stayed up all the while")
    assert "  NO " not in result.output
