"""The probe as a process: against a daemon whose containers run and end, and against peers of all kinds."""

import asyncio
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack

import pytest

from adapters.memif.handshake import Interface
from adapters.memif.server import MemifServer
from adapters.memory.node import Pod
from tests.documents import commands, named
from tests.e2e.commands import Ran, command, ran
from tests.e2e.daemon import ANYBODY, needs_root
from tests.e2e.dpdk import USING_MEMIF
from tests.integration.daemon import RESOURCE, House, Stand, a_stand
from tests.integration.filesystem import short_place
from tests.integration.memif import SECRET, WRONG, Raw, bound, left_behind, link, playing, touch
from tests.integration.nodes import app, pod

NOWHERE = "/nonexistent/control.sock"


class Scene:
    """A daemon, a pod whose only container has two interfaces, and the dataplane that listens for it."""

    def __init__(self, stand: Stand, house: House, cnf: Pod, dataplane: MemifServer) -> None:
        self.stand = stand
        self.house = house
        self.cnf = cnf
        self.dataplane = dataplane
        self.host_socket = cnf.container("dataplane").annotations["io.contivpp.memif.socket.host"]
        self.secret = cnf.container("dataplane").env["MEMIF_SECRET"]

    async def probe(self, *arguments: str) -> Ran:
        """Run the command against this daemon."""
        done = await ran("probe", *arguments, "--control-socket", str(self.stand.root / "control.sock"))
        assert self.secret not in done.out + done.error
        return done

    async def until_probed(self, *arguments: str) -> Ran:
        """Run the command; the dataplane must have been asked."""
        done = await self.probe(*arguments)
        assert (done.code, done.error) == (0, "")
        return done


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        stand = await stack.enter_async_context(a_stand())
        house = await stand.serve()
        cnf = await stand.node.start(pod("cnf", app("dataplane", 2, RESOURCE)))
        (given,) = house.live
        offered = [Interface(id=each, secret=given.secret) for each in (1, 2)]
        server = MemifServer(given.host_socket, offered, name="VPP 24.06")
        yield Scene(stand, house, cnf, await stack.enter_async_context(server))


def refusal(done: Ran, code: int) -> tuple[str, str]:
    """Return reason and text of a failure with ``--json``, which are on stdout and stderr alike."""
    error = done.json["error"]
    assert done.code == code
    assert done.error == f"Error: {error['message']}\n"
    return error["reason"], error["message"]


class TestOfAPod:
    async def test_its_peer_is_asked_with_the_secret_that_the_daemon_knows(self, scene: Scene) -> None:
        scene.stand.node.exit_container(scene.cnf, "dataplane")
        people, programs, other = await asyncio.gather(
            scene.until_probed("telco/cnf"),
            scene.until_probed("telco/cnf/dataplane", "--json", "--id", "2"),
            scene.probe("telco/cnf", "--id", "3", "--json"),
        )

        assert "peer           VPP 24.06, memif 2.0" in people.out
        assert "id 1 accepted" in people.out
        assert programs.json == {
            "socket": scene.host_socket,
            "allocation": scene.house.live[0].id,
            "peer": {"name": "VPP 24.06", "lowest": "2.0", "highest": "2.0"},
            "interface": 2,
            "accepted": True,
            "refusal": None,
        }
        assert (other.code, other.json["refusal"]) == (1, "unmatched interface id")
        assert "it says 'unmatched interface id'" in other.error

    async def test_one_whose_container_runs_is_left_alone_unless_it_is_forced(self, scene: Scene) -> None:
        refused = await scene.probe("telco/cnf", "--json")
        untouched = not scene.dataplane.turned and not scene.dataplane.links
        await scene.until_probed("telco/cnf", "--force")

        assert refusal(refused, 7)[0] == "IN_USE"
        assert "container telco/cnf runs; --force" in refused.error
        assert untouched

    async def test_a_container_that_started_a_moment_ago_is_seen(self, scene: Scene) -> None:
        """The daemon looks anew: its last reading is as old as the interval at worst."""
        scene.stand.node.exit_container(scene.cnf, "dataplane")
        await scene.house.reconcile()
        await scene.stand.node.restart_container(scene.cnf, "dataplane")

        assert refusal(await scene.probe("telco/cnf", "--json"), 7)[0] == "IN_USE"

    async def test_where_the_runtime_does_not_answer_it_cannot_be_told(self, scene: Scene) -> None:
        scene.stand.runtime.cut("containerd does not answer")
        by_name, by_path = await asyncio.gather(
            scene.probe("telco/cnf", "--json"), scene.probe(scene.host_socket, "--json")
        )
        await scene.until_probed("telco/cnf", "--force")

        assert refusal(by_name, 6)[0] == refusal(by_path, 7)[0] == "UNKNOWN_NOW"
        assert "unknown: containerd does not answer" in by_name.error
        assert "unknown: containerd does not answer" in by_path.error

    async def test_of_several_containers_one_must_be_named(self, scene: Scene) -> None:
        await scene.stand.node.start(pod("two", app("a", 1, RESOURCE), app("b", 1, RESOURCE)))
        several, strange, nobody, away = await asyncio.gather(
            scene.probe("telco/two"),
            scene.probe("telco/two/c", "--json"),
            scene.probe("telco/nobody", "--json"),
            ran("probe", "telco/cnf", "--json", "--control-socket", NOWHERE),
        )

        assert several.code == 2
        assert "say telco/two/ and one of: a, b" in several.error
        assert refusal(strange, 4) == ("NO_MEMIF", "no container telco/two/c holds memif; of this pod do: a, b")
        assert refusal(nobody, 4)[0] == "NO_POD"
        assert refusal(away, 5)[0] == "UNREACHABLE"

    async def test_what_our_users_are_told_to_type_is_answered_as_they_are_told(self, scene: Scene) -> None:
        secret = scene.stand.root / "secret"
        secret.write_text(f"{scene.secret}\n", encoding="utf-8")
        real = {"/run/vpp/memif.sock": scene.host_socket, "./secret": str(secret)}
        typed = [shlex.split(each.text, comments=True)[2:] for each in commands(named(USING_MEMIF, "probe"))]
        scene.stand.node.exit_container(scene.cnf, "dataplane")
        answers = await asyncio.gather(
            *(scene.until_probed(*(real.get(word, word) for word in words)) for words in typed)
        )
        shown = [line[:15] for line in named(USING_MEMIF, "probe-output").lines]

        assert len(answers) == 3
        assert [[line[:15] for line in each.out.splitlines()] for each in answers] == [shown] * 3


class TestOfASocket:
    async def test_one_of_ours_is_left_alone_while_its_container_runs_however_it_is_spelled(self, scene: Scene) -> None:
        other = scene.stand.root / "other"
        other.symlink_to(scene.stand.host_dir)
        spelled = f"{other}/{scene.house.live[0].id}/./memif.sock"
        secret = scene.stand.root / "secret"
        secret.write_text(f"{scene.secret}\n", encoding="utf-8")
        refused = await scene.probe(spelled, "--json", "--secret-file", str(secret))
        scene.stand.node.exit_container(scene.cnf, "dataplane")
        probed = await scene.until_probed(spelled, "--json", "--secret-file", str(secret))

        assert refusal(refused, 7)[0] == "IN_USE"
        assert (probed.json["accepted"], probed.json["allocation"]) == (True, scene.house.live[0].id)

    async def test_one_of_nobody_s_is_probed_with_the_secret_in_a_file_or_none(self, scene: Scene) -> None:
        place = f"{scene.stand.root}/other.sock"
        right, wrong = scene.stand.root / "right", scene.stand.root / "wrong"
        right.write_text(SECRET.reveal(), encoding="utf-8")
        wrong.write_text(WRONG.reveal(), encoding="utf-8")
        async with MemifServer(place, [Interface(id=1, secret=SECRET)]):
            accepted, refused, without = await asyncio.gather(
                scene.until_probed(place, "--secret-file", str(right), "--json"),
                scene.probe(place, "--secret-file", str(wrong), "--json"),
                scene.probe(place, "--json"),
            )

        assert (accepted.json["accepted"], accepted.json["allocation"]) == (True, None)
        assert (refused.code, refused.json["refusal"]) == (1, "incorrect secret")
        assert (without.code, without.json["refusal"]) == (1, "secret required")
        assert not {each.reveal() for each in (SECRET, WRONG)} & set((refused.out + refused.error).split("'"))

    async def test_without_the_daemon_it_is_refused_unless_it_is_forced(self, scene: Scene) -> None:
        await scene.house.stop()
        refused = await scene.probe(scene.host_socket, "--json")
        forced = await scene.probe(scene.host_socket, "--json", "--force")

        assert refusal(refused, 7)[0] == "UNREACHABLE"
        assert "the daemon cannot be asked: no daemon answers" in refused.error
        assert (forced.code, forced.json["refusal"]) == (1, "secret required")


async def probed(path: str, *arguments: str, through: Sequence[str] = ()) -> tuple[str, str]:
    """Probe a path whatever the daemon says, and return why nothing came of it."""
    done = await ran("probe", path, "--force", "--json", *arguments, through=through)
    return refusal(done, 1)


def _stream(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    return listener


def _abstract(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{path}")
    listener.listen(1)
    return listener


def _linked(path: str) -> None:
    left_behind(f"{path}.real")
    link(path, f"{path}.real")


PLACES: dict[str, tuple[Callable[[str], socket.socket | None], str]] = {
    "NO_SOCKET": (lambda _: None, "the dataplane has not made it yet"),
    "NOBODY_LISTENS": (left_behind, "nobody listens on"),
    "NOT_A_SOCKET": (touch, "is no socket"),
    "WRONG_SOCKET_TYPE": (_stream, "not on a SEQPACKET socket"),
    "SYMBOLIC_LINK": (_linked, "is a symbolic link and is not followed"),
    "ABSTRACT_SOCKET": (_abstract, "socket-abstract=no"),
}
"""What may be in a socket's place, by the reason that is given for it, and a part of the words."""


class TestAPeerThatCannotBeAsked:
    async def test_what_is_in_the_socket_s_place_is_said(self) -> None:
        with short_place() as place, ExitStack() as open_ones:
            for reason, (make, _) in PLACES.items():
                if (made := make(f"{place}/{reason}")) is not None:
                    open_ones.enter_context(made)
            answers = await asyncio.gather(*(probed(f"{place}/{reason}") for reason in PLACES))

        assert [reason for reason, _ in answers] == list(PLACES)
        assert [
            words for (_, words), (_, part) in zip(answers, PLACES.values(), strict=True) if part not in words
        ] == []

    @needs_root
    async def test_one_that_is_not_for_the_asker_is_said(self) -> None:
        with short_place() as place:
            place.chmod(0o755)
            with bound(f"{place}/memif.sock"):
                (place / "memif.sock").chmod(0o750)
                reason, words = await probed(f"{place}/memif.sock", through=ANYBODY)

        assert reason == "NOT_PERMITTED"
        assert "it takes write permission on the socket" in words

    async def test_one_that_says_nothing_is_given_up(self) -> None:
        async def silence(peer: Raw) -> None:
            await peer.receive()

        with short_place() as place:
            async with playing(f"{place}/memif.sock", silence):
                reason, words = await probed(f"{place}/memif.sock")

        assert reason == "PEER_SILENT"
        assert "said nothing within 5 s" in words

    async def test_one_that_speaks_something_else_is_said(self) -> None:
        async def babble(peer: Raw) -> None:
            await peer.send(b"220 mail.example.com ESMTP\r\n")

        with short_place() as place:
            async with playing(f"{place}/memif.sock", babble):
                reason, words = await probed(f"{place}/memif.sock")

        assert reason == "NOT_MEMIF"
        assert "does not speak the memif protocol" in words


class TestTheSecretFile:
    async def test_what_holds_no_secret_is_not_sent(self) -> None:
        with short_place() as place:
            (place / "real").write_text(SECRET.reveal(), encoding="utf-8")
            (place / "link").symlink_to(place / "real")
            (place / "long").write_text("x" * 24, encoding="utf-8")
            (place / "two").write_text("one two\n", encoding="utf-8")
            (place / "directory").mkdir()
            names = ("link", "long", "two", "directory", "missing")
            answers = await asyncio.gather(
                *(probed(f"{place}/memif.sock", "--secret-file", f"{place}/{name}") for name in names)
            )

        assert {reason for reason, _ in answers} == {"SECRET_UNREADABLE"}
        assert "symbolic links are not followed" in answers[0][1]
        assert "no memif secret in" in answers[1][1]
        assert not [words for _, words in answers if "xxx" in words or "one two" in words]

    async def test_of_a_pod_the_daemon_knows_it(self) -> None:
        done = await ran("probe", "telco/cnf", "--secret-file", "/dev/null")

        assert done.code == 2
        assert done.error.startswith("Error: --secret-file goes with SOCKET")


@pytest.mark.parametrize("target", ["memif.sock", "a/b/c/d", "a//b", "telco/"])
async def test_what_is_neither_a_pod_nor_a_path_is_one_line(target: str) -> None:
    done = await ran("probe", target)

    assert (done.code, done.out) == (2, "")
    assert done.error.count("\n") == 1


async def test_the_demo_s_dataplane_answers() -> None:
    with short_place() as place:
        demo = await command("demo", "--serve", environment={"TMPDIR": str(place), "PYTHONUNBUFFERED": "1"})
        assert demo.stdout is not None
        line = b""
        while b"--control-socket" not in line:
            line = await demo.stdout.readline()
            assert line
        refused, answered = await asyncio.gather(
            ran("probe", "telco/cnf/dataplane", *line.decode().split()),
            ran("probe", "telco/cnf/dataplane", "--force", "--id", "2", *line.decode().split()),
        )
        demo.send_signal(signal.SIGINT)
        await demo.communicate()

    assert refused.code == 7
    assert (answered.code, answered.error) == (0, "")
    assert "demo dataplane, memif 2.0" in answered.out
    assert demo.returncode == 0
