"""The agent in docs/control-api.md, run as its reader would run it: with stubs of its own."""

import asyncio
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from adapters.memory.node import ContainerSpec, PodSpec
from app.cli.control import CODES
from domain.ledger import Standing
from tests.integration.daemon import RESOURCE, a_stand

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "control-api.md"
CNF = PodSpec(namespace="telco", name="cnf", containers=(ContainerSpec(name="app", limits={RESOURCE: 2}),))
ONE = PodSpec(namespace="telco", name="one", containers=(ContainerSpec(name="app", limits={RESOURCE: 1}),))


@asynccontextmanager
async def agent(place: Path, socket: Path) -> AsyncIterator[asyncio.StreamReader]:
    """Make the stubs, run the page's program, and yield what it prints."""
    (program,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (place / "agent.py").write_text(program, encoding="utf-8")
    made = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={CHECKOUT / 'proto'}"),
        *(f"--python_out={place}", f"--grpc_python_out={place}", "memif/v1/memif.proto"),
    )
    assert await made.wait() == 0
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "agent.py", str(socket), "telco/cnf"), cwd=place, stdout=PIPE
    )
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


async def line(out: asyncio.StreamReader) -> list[str]:
    """Return the next line's words."""
    async with asyncio.timeout(30):
        return (await out.readline()).decode().split()


async def test_it_learns_everything_also_over_a_restart_of_the_daemon(tmp_path: Path) -> None:
    async with a_stand() as stand:
        house = await stand.serve()
        async with agent(tmp_path, stand.root / "control.sock") as out:
            await stand.node.start(CNF)  # the agent may ask before or after
            (first,) = house.live
            container = await line(out)
            up = [await line(out) for _ in first.devices]
            assert container == ["container", "app", first.host_socket, "20"]
            assert up == [
                ["up", first.host_socket, str(number), device] for number, device in enumerate(first.devices, start=1)
            ]
            await stand.node.start(ONE)
            second = house.live[-1]
            assert await line(out) == ["up", second.host_socket, "1", second.devices[0]]

            # What happens while it cannot watch is in the snapshot of the next process, or missing there.
            await house.stop()
            ledger = house.container.state().ledger
            assert ledger.records[second.id].standing is Standing.LIVE
            again = await stand.serve(instance="two")
            await again.container.release().force(again.container.state().ledger.records[second.id], reason="a test")

            assert await line(out) == ["down", second.host_socket]


def test_every_reason_and_exit_code_is_on_the_page() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|[^|]*\| (\d) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert {reason: int(code) for reason, code in rows} == {reason: int(code) for reason, code in CODES.items()}
