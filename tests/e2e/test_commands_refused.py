"""Every command against a daemon that cannot be asked, that is of another version, and without rights."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from app.cli import main
from tests.e2e import versions
from tests.e2e.commands import Served, a_served, ran, unreachable
from tests.e2e.daemon import ANYBODY, needs_root
from tests.integration.filesystem import short_place

pytestmark = pytest.mark.asyncio(loop_scope="module")


TALKING = (
    ("status",),
    ("pod", "telco/cnf"),
    ("allocations",),
    ("watch",),
    ("release", "telco/cnf"),
    ("reconcile", "--dry-run"),
    ("probe", "telco/cnf"),
)
"""Every command that asks the daemon."""

ALONE = ("run", "demo", "validate", "config", "doctor", "cleanup")
"""Every command that does not."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with a_served() as made:
        yield made


async def every(*more: str, through: Sequence[str] = ()) -> list[str]:
    """Run every command that asks the daemon, and return their lines; each must say that it cannot be asked."""
    return await asyncio.gather(*(unreachable(*arguments, *more, through=through) for arguments in TALKING))


class TestADaemonThatCannotBeAsked:
    async def test_it_is_down_and_left_no_socket(self) -> None:
        with short_place() as place:
            lines = await every("--control-socket", str(place / "control.sock"))

        assert all("there is no socket" in line for line in lines)

    async def test_it_died(self) -> None:
        with short_place() as place:
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(place / "control.sock"))
            line = await unreachable("status", "--control-socket", str(place / "control.sock"))

        assert "nobody listens" in line

    async def test_it_hangs(self, served: Served) -> None:
        served.daemon.process.send_signal(signal.SIGSTOP)
        try:
            lines = await every("--control-socket", served.socket)
        finally:
            served.daemon.process.send_signal(signal.SIGCONT)

        assert all("does not answer in time" in line for line in lines)

    @needs_root
    async def test_it_is_root_s_and_the_asker_is_not(self, served: Served) -> None:
        lines = await every("--control-socket", served.socket, through=ANYBODY)

        assert all("no permission to connect" in line for line in lines)

    @pytest.mark.parametrize("service", ["memif.v9.Memif", versions.SERVICE])
    async def test_it_is_of_another_version_that_does_not_know_the_calls(self, service: str) -> None:
        with short_place() as place:
            async with versions.serving(place / "control.sock", {}, service=service):
                lines = await every("--control-socket", str(place / "control.sock"))

        assert all("another version" in line for line in lines)

    async def test_its_answers_are_no_messages(self) -> None:
        with short_place() as place:
            async with versions.serving(place / "control.sock", versions.GARBAGE):
                lines = await every("--control-socket", str(place / "control.sock"))

        assert all("does not speak memif.v1" in line for line in lines)

    async def test_it_is_another_program(self) -> None:
        async def babble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 mail.example.com ESMTP\r\n")
            await writer.drain()
            writer.close()

        with short_place() as place:
            server = await asyncio.start_unix_server(babble, place / "control.sock")
            async with server:
                line = await unreachable("status", "--control-socket", str(place / "control.sock"))

        assert "does not answer" in line

    async def test_the_socket_is_a_file(self) -> None:
        with short_place() as place:
            (place / "control.sock").write_text("", encoding="utf-8")
            line = await unreachable("status", "--control-socket", str(place / "control.sock"))

        assert "nobody listens" in line

    async def test_the_path_is_too_long_for_a_socket(self) -> None:
        line = await unreachable("status", "--control-socket", "/tmp/" + "x" * 200)

        assert "too long" in line


class TestADaemonOfAnotherVersion:
    """What it says more is not shown, what it says less is not known, and neither is an error."""

    @pytest_asyncio.fixture(loop_scope="module", params=[versions.NEWER, versions.OLDER], ids=["newer", "older"])
    async def control(self, request: pytest.FixtureRequest) -> AsyncIterator[tuple[str, str]]:
        with short_place() as place:
            async with versions.serving(place / "control.sock", request.param):
                yield "--control-socket", str(place / "control.sock")

    @pytest.mark.parametrize("arguments", [each for each in TALKING if each[0] != "probe"], ids=lambda each: each[0])
    async def test_it_is_understood_as_far_as_it_goes(
        self, control: tuple[str, str], arguments: tuple[str, ...]
    ) -> None:
        people, programs = await asyncio.gather(ran(*arguments, *control), ran(*arguments, *control, "--json"))

        assert (people.code, people.error) == (programs.code, programs.error) == (0, "")
        assert "\x1b" not in people.out
        assert isinstance(programs.json, dict | list)

    async def test_what_is_not_known_is_null(self) -> None:
        with short_place() as place:
            async with versions.serving(place / "control.sock", versions.NEWER):
                listed, watched = await asyncio.gather(
                    *(
                        ran(each, "--json", "--control-socket", f"{place}/control.sock")
                        for each in ("allocations", "watch")
                    )
                )

        assert [each["state"] for each in listed.json] == [None]
        assert (watched.json["type"], watched.json["instance"]) == (None, "later")

    async def test_a_reason_that_is_not_known_is_told_and_says_that_it_cannot_be_told_now(self) -> None:
        with short_place() as place:
            async with versions.serving(place / "control.sock", versions.NEWER, refusal="OUT_OF_SEASON"):
                path = str(place / "control.sock")
                found = await asyncio.gather(
                    *(ran(*arguments, "--json", "--control-socket", path) for arguments in TALKING)
                )

        assert {each.code for each in found} == {6}
        assert {each.json["error"]["reason"] for each in found} == {"OUT_OF_SEASON"}
        assert {each.error for each in found} == {"Error: it is not the season\n"}


class TestCommandsThatAskNobody:
    async def test_every_command_is_one_or_the_other(self) -> None:
        assert {*(each[0] for each in TALKING), *ALONE} == set(main.commands)

    @needs_root
    @pytest.mark.parametrize(
        "arguments, code, what",
        [
            (("run",), 3, "Error: the lock "),
            (("cleanup", "--all", "--yes"), 3, "Error: the lock "),
            (("allocations", "--offline"), 5, "Error: the journal "),
            (("validate",), 0, ""),
            (("config",), 0, ""),
        ],
        ids=lambda each: each[0] if isinstance(each, tuple) else "",
    )
    async def test_without_rights(self, arguments: tuple[str, ...], code: int, what: str) -> None:
        with short_place() as place:  # root's, like everything in it
            (place / "state").mkdir(mode=0o700)
            (place / "state" / "state.db").touch(mode=0o600)
            environment = {
                "MEMIF_DP_STATE": f"{place}/state/state.db",
                "MEMIF_DP_RUNTIME__KIND": "memory",
                "MEMIF_DP_HTTP__LISTEN": "null",
            }
            done = await ran(*arguments, through=ANYBODY, environment=environment)

        lines = [each for each in done.error.splitlines() if not each.startswith("{")]
        assert done.code == code
        assert "\n".join(lines).startswith(what)
        assert len(lines) == (1 if what else 0)

    async def test_below_a_daemon_that_hangs_its_journal_tells(self, served: Served) -> None:
        served.daemon.process.send_signal(signal.SIGSTOP)
        try:
            done = await ran("allocations", "--offline", "--json", "--config", str(served.stand.root / "plugin.yaml"))
        finally:
            served.daemon.process.send_signal(signal.SIGCONT)

        assert (done.code, done.error) == (0, "")
        assert len(done.json) >= 1

    async def test_a_daemon_that_hangs_is_not_uninstalled(self, served: Served) -> None:
        served.daemon.process.send_signal(signal.SIGSTOP)
        try:
            done = await ran("cleanup", "--all", "--yes", "--config", str(served.stand.root / "plugin.yaml"))
        finally:
            served.daemon.process.send_signal(signal.SIGCONT)

        assert (done.code, done.out) == (3, "")
        assert done.error.startswith("Error: the daemon runs ")
