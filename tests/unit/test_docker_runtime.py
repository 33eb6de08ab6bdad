"""How Docker is asked, and what becomes of a daemon that misbehaves."""

import asyncio
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from pytest_mock import MockerFixture

from adapters.docker.hints import Hints
from adapters.docker.line import Line
from adapters.docker.runtime import DockerRuntime
from adapters.memory.clock import ManualClock
from domain.ports.runtime import RuntimeUnavailable
from tests.unit.docker_daemon import PATIENCE, Daemon, a_daemon, captured, container, response

PREFIX = "io.contivpp.memif"
SECRET = "averygoodsecret4u"
SOON = 0.2
"""Seconds: the deadline where it is to pass."""


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    async with a_daemon() as daemon:
        yield daemon


def runtime(daemon: Daemon, *, deadline: float = PATIENCE, clock: ManualClock | None = None) -> DockerRuntime:
    return DockerRuntime(endpoint=daemon.path, prefixes=(PREFIX,), clock=clock or ManualClock(), deadline=deadline)


async def unavailable(docker: DockerRuntime) -> str:
    """Return why there is no snapshot."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(RuntimeUnavailable) as caught:
            await docker.snapshot()
    return str(caught.value)


def feed_of(docker: DockerRuntime) -> AsyncGenerator[None]:
    """Return a feed that can be closed."""
    feed = docker.changes()
    assert isinstance(feed, AsyncGenerator)
    return feed


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- no paths wanted


async def hint(feed: AsyncIterator[None]) -> None:
    async with asyncio.timeout(PATIENCE):
        await anext(feed)


class TestSnapshot:
    async def test_it_is_one_list_call_however_many_containers_there_are(self, daemon: Daemon) -> None:
        daemon.containers = [container(number) for number in range(500)]

        view = await runtime(daemon).snapshot()

        assert len(view.objects) == 500
        assert [urlsplit(each).path for each in daemon.asked] == ["/_ping", "/v1.41/containers/json"]
        assert parse_qs(urlsplit(daemon.asked[1]).query)["all"] == ["1"]

    async def test_it_begins_before_the_first_question(self, daemon: Daemon) -> None:
        clock = ManualClock()
        began = clock.monotonic()
        daemon.on_list = lambda: clock.advance(5)

        view = await runtime(daemon, clock=clock).snapshot()

        assert view.began == began

    async def test_it_shows_what_was_recorded_of_docker(self, daemon: Daemon) -> None:
        daemon.containers = captured("docker-containers-json.json")

        view = await runtime(daemon).snapshot()

        assert {thing.name for thing in view.objects} == {"p3-node1"}

    async def test_a_container_that_goes_during_the_call_is_as_the_daemon_says(self, daemon: Daemon) -> None:
        """There is no second call about it that could fail."""
        daemon.containers = [container(1), container(2)]
        daemon.on_list = daemon.containers.clear

        view = await runtime(daemon).snapshot()

        assert view.objects == ()
        assert len(daemon.asked_for("/containers/json")) == 1

    async def test_megabytes_of_labels_are_read(self, daemon: Daemon) -> None:
        daemon.containers = [container(1, labels={"example.com/big": "x" * 8_000_000}), container(2)]

        view = await runtime(daemon).snapshot()

        assert len(view.objects) == 2

    async def test_questions_at_the_same_time_do_not_disturb_each_other(self, daemon: Daemon) -> None:
        daemon.containers = [container()]
        docker = runtime(daemon)

        views = await asyncio.gather(*(docker.snapshot() for _ in range(20)))

        assert all(len(view.objects) == 1 for view in views)

    async def test_no_connection_stays(self, daemon: Daemon) -> None:
        await runtime(daemon).snapshot()

        await daemon.until(lambda: not daemon.connections)

    async def test_the_endpoint_may_be_written_as_a_url(self, daemon: Daemon) -> None:
        docker = DockerRuntime(endpoint=f"unix://{daemon.path}", prefixes=(), clock=ManualClock())

        assert (await docker.snapshot()).objects == ()

    @pytest.mark.parametrize("endpoint", ["", "unix://", "tcp://localhost:2375", "docker.sock", "unix://docker.sock"])
    def test_an_endpoint_that_is_no_unix_socket_is_refused(self, endpoint: str) -> None:
        with pytest.raises(ValueError, match="is no Unix socket"):
            DockerRuntime(endpoint=endpoint, prefixes=(), clock=ManualClock())

    async def test_a_path_may_hold_what_means_something_in_urls(self) -> None:
        async with a_daemon(name="a b#c%2F?d:e@f.sock") as daemon:
            assert (await runtime(daemon).snapshot()).objects == ()


class TestVersions:
    @pytest.mark.parametrize(
        "offered, spoken",
        [("1.40", "1.40"), ("1.41", "1.41"), ("1.55", "1.55"), ("1.99", "1.55"), ("2.0", "1.55"), ("1.100", "1.55")],
    )
    async def test_the_newest_that_both_know_is_spoken(self, daemon: Daemon, offered: str, spoken: str) -> None:
        daemon.api = offered

        await runtime(daemon).snapshot()

        assert urlsplit(daemon.asked[-1]).path == f"/v{spoken}/containers/json"

    @pytest.mark.parametrize("offered", ["1.39", "1.9", "0.99"])
    async def test_a_daemon_that_is_too_old_is_named_so(self, daemon: Daemon, offered: str) -> None:
        daemon.api = offered

        assert f"it speaks API {offered}, and 1.40 (Docker 19.03) is the oldest known" in await unavailable(
            runtime(daemon)
        )

    async def test_a_daemon_that_is_too_new_is_quoted(self, daemon: Daemon) -> None:
        words = "client version 1.55 is too old. Minimum supported API version is 1.60"
        daemon.api = "1.70"
        daemon.answers["/containers/json"] = response(json.dumps({"message": words}).encode(), status="400 Bad Request")

        assert f"it refuses with status 400: {words}" in await unavailable(runtime(daemon))

    @pytest.mark.parametrize("offered", [None, "", "one", "1", "1.41.2"])
    async def test_what_names_no_version_is_no_docker(self, daemon: Daemon, offered: str | None) -> None:
        daemon.api = offered

        assert "is no Docker daemon" in await unavailable(runtime(daemon))

    async def test_after_an_upgrade_the_new_version_is_spoken_at_once(self, daemon: Daemon) -> None:
        docker = runtime(daemon)
        await docker.snapshot()
        daemon.api = "1.44"

        await docker.snapshot()

        assert [urlsplit(each).path for each in daemon.asked_for("/containers/json")] == [
            "/v1.41/containers/json",
            "/v1.44/containers/json",
        ]

    async def test_the_identity_is_what_the_daemon_says_of_itself(self, daemon: Daemon) -> None:
        identity = await runtime(daemon).identity()

        assert (identity.kind, identity.version) == ("docker", "20.10.24")
        assert daemon.asked == ["/version"]


class TestOddAnswers:
    @pytest.mark.parametrize(
        "body, words",
        [
            (b"", "answers no JSON"),
            (b"not json", "answers no JSON"),
            (b'[{"Id": "s3cret"', "answers no JSON"),
            (b'"s3cret"', "is not understood"),
            (b'{"message": "s3cret"}', "is not understood"),
            (b'[{"Id": "a", "State": "running", "Labels": ["s3cret"]}]', "is not understood"),
            (b"[" * 200_000, "failed with RecursionError"),
        ],
    )
    async def test_no_list_is_an_error_that_quotes_nothing(self, daemon: Daemon, body: bytes, words: str) -> None:
        daemon.answers["/containers/json"] = response(body)

        text = await unavailable(runtime(daemon))

        assert words in text
        assert "s3cret" not in text

    async def test_bytes_that_are_no_text_cannot_hide_what_is_mounted(self, daemon: Daemon) -> None:
        body = b'[{"Id": "a", "State": "exited", "Labels": {"\xff": "\xff"}, "Mounts": [%s]}]'
        mount = b'{"Type": "bind", "Source": "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz", "Destination": "/run/vpp"}'
        daemon.answers["/containers/json"] = response(body % mount)

        (thing,) = (await runtime(daemon).snapshot()).objects

        assert thing.mounts == {"/run/vpp": "/var/run/contiv/memif/bcdfghjklmnpqrstvwxz"}

    async def test_an_answer_that_breaks_off_is_an_error_and_never_part_of_a_list(self, daemon: Daemon) -> None:
        whole = response(json.dumps([container(1), container(2)]).encode())
        daemon.answers["/containers/json"] = whole[:-40]
        daemon.breaks_off = True

        assert "the connection broke" in await unavailable(runtime(daemon))

    @pytest.mark.parametrize("body", [b'{"message": "no disk"}', b"no disk"])
    async def test_a_refusal_is_told(self, daemon: Daemon, body: bytes) -> None:
        daemon.answers["/containers/json"] = response(body, status="500 Internal Server Error")

        assert "it refuses with status 500: no disk" in await unavailable(runtime(daemon))

    @pytest.mark.parametrize("body", [b"[]", b"{}", b"7"])
    async def test_a_refusal_of_no_form_is_an_error_too(self, daemon: Daemon, body: bytes) -> None:
        daemon.answers["/containers/json"] = response(body, status="500 Internal Server Error")

        assert "failed with" in await unavailable(runtime(daemon))

    async def test_what_does_not_speak_http_is_no_docker(self, daemon: Daemon) -> None:
        """Such as containerd's socket."""
        daemon.answers["/_ping"] = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00\r\n\r\n"

        assert "does not speak HTTP" in await unavailable(runtime(daemon))

    async def test_a_redirection_leads_nowhere_else(self, daemon: Daemon) -> None:
        daemon.answers["/_ping"] = response(
            b"", status="302 Found", headers={"Location": "http://localhost:9/elsewhere", "Content-Length": "0"}
        )

        await unavailable(runtime(daemon))

        assert daemon.asked[:2] == ["/_ping", "/elsewhere"]


class TestTrouble:
    async def test_a_missing_socket_is_told_with_its_cure(self, tmp_path: Path) -> None:
        docker = DockerRuntime(endpoint=f"{tmp_path}/none.sock", prefixes=(), clock=ManualClock())

        assert f"Docker at {tmp_path}/none.sock: there is no such socket: start dockerd" in await unavailable(docker)

    async def test_a_socket_on_which_nobody_listens_is_told(self, daemon: Daemon) -> None:
        await daemon.stop()

        assert "nothing listens there: start dockerd" in await unavailable(runtime(daemon))

    @pytest.mark.skipif(os.geteuid() != 0, reason="becomes somebody else: run as root")
    def test_a_socket_without_permission_is_told(self, daemon: Daemon) -> None:
        Path(daemon.path).chmod(0o600)
        program = (
            "import asyncio, concurrent.futures.thread, os, sys\n"
            "from adapters.docker.runtime import DockerRuntime\n"
            "from adapters.system.clock import SystemClock\n"
            "import adapters.docker.conversation\n"
            "os.setuid(65534)\n"
            "docker = DockerRuntime(endpoint=sys.argv[1], prefixes=(), clock=SystemClock())\n"
            "asyncio.run(docker.snapshot())\n"
        )
        Path(daemon.path).parent.chmod(0o755)

        done = subprocess.run([sys.executable, "-c", program, daemon.path], capture_output=True, text=True, check=False)

        assert f"RuntimeUnavailable: Docker at {daemon.path}: permission denied: run as root" in done.stderr

    async def test_a_path_that_is_too_long_for_a_socket_is_an_error(self) -> None:
        docker = DockerRuntime(endpoint=f"/{'x' * 200}", prefixes=(), clock=ManualClock())

        assert "Docker at /xxx" in await unavailable(docker)

    async def test_a_backlog_that_is_full_is_told(self, tmp_path: Path) -> None:
        """A daemon that hangs takes no more connections after some time."""
        path = f"{tmp_path}/s"
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(path)
            server.listen(0)
            client.connect(path)
            docker = DockerRuntime(endpoint=path, prefixes=(), clock=ManualClock(), deadline=PATIENCE)

            assert "it takes no more connections" in await unavailable(docker)

    async def test_a_daemon_that_hangs_is_an_error_within_the_deadline(self, daemon: Daemon) -> None:
        daemon.hang()

        assert f"does not answer within {SOON:g} s" in await unavailable(runtime(daemon, deadline=SOON))

    async def test_a_daemon_that_dribbles_is_one_that_hangs(self, daemon: Daemon) -> None:
        """Each byte would start a socket's own timeout anew."""
        daemon.containers = [container(1, labels={"example.com/long": "x" * 100_000})]
        daemon.dribbles = True

        assert f"does not answer within {SOON:g} s" in await unavailable(runtime(daemon, deadline=SOON))
        await daemon.until(lambda: not daemon.connections)

    async def test_a_daemon_that_hangs_holds_no_thread_and_no_connection(self, daemon: Daemon) -> None:
        """More calls than there may be threads; were one held, those after it would wait for its end."""
        await runtime(daemon).snapshot()
        await daemon.until(lambda: not daemon.connections)
        descriptors = open_descriptors()
        docker = runtime(daemon, deadline=SOON)
        daemon.hang()
        for _ in range(8):
            await asyncio.gather(*(unavailable(docker) for _ in range(8)))
        daemon.go_on()

        assert (await runtime(daemon).snapshot()).objects == ()
        await daemon.until(lambda: not daemon.connections)
        assert open_descriptors() == descriptors

    async def test_a_call_that_is_cancelled_ends_its_connection_at_once(self, daemon: Daemon) -> None:
        daemon.hang()
        call = asyncio.ensure_future(runtime(daemon).snapshot())
        await daemon.until(lambda: bool(daemon.asked))

        call.cancel()

        with pytest.raises(asyncio.CancelledError):
            await call
        await daemon.until(lambda: not daemon.connections)

    async def test_a_daemon_that_is_stopped_during_the_call_is_an_error(self, daemon: Daemon) -> None:
        daemon.hang()
        call = asyncio.ensure_future(unavailable(runtime(daemon)))
        await daemon.until(lambda: bool(daemon.asked))

        await daemon.stop()

        assert "the connection broke: dockerd was stopped or restarted" in await call

    async def test_a_daemon_that_was_restarted_is_simply_asked(self, daemon: Daemon) -> None:
        docker = runtime(daemon)
        await docker.snapshot()
        await daemon.stop()
        await daemon.start()

        assert (await docker.snapshot()).objects == ()

    async def test_a_closed_runtime_ends_what_it_waits_for_and_asks_nothing_more(self, daemon: Daemon) -> None:
        docker = runtime(daemon)
        daemon.hang()
        call = asyncio.ensure_future(unavailable(docker))
        await daemon.until(lambda: bool(daemon.asked))

        await docker.aclose()

        assert await call
        assert "was given up" in await unavailable(docker)
        await daemon.until(lambda: not daemon.connections)


class TestChanges:
    async def test_the_feed_begins_with_a_hint_and_gives_one_for_each_event(self, daemon: Daemon) -> None:
        feed = feed_of(runtime(daemon))

        await hint(feed)
        for _ in range(3):
            daemon.emit(b'{"Action": "start"}\n')
            await hint(feed)
        await feed.aclose()

    async def test_only_what_changes_the_list_is_asked_for_and_from_before_the_call(self, daemon: Daemon) -> None:
        """Probes make events all day.  And Docker answers before it listens, so it is asked for the time between."""
        clock = ManualClock()
        feed = feed_of(runtime(daemon, clock=clock))
        await hint(feed)
        await feed.aclose()

        (asked,) = map(urlsplit, daemon.asked_for("/events"))
        query = parse_qs(asked.query)
        filters = json.loads(query["filters"][0])

        assert asked.path == "/v1.41/events"
        assert int(query["since"][0]) <= clock.now().timestamp()
        assert filters["type"] == ["container"]
        assert {"create", "start", "die", "destroy", "pause", "unpause", "rename"} <= set(filters["event"])
        assert not [event for event in filters["event"] if event.startswith(("exec", "health"))]

    async def test_a_flood_of_events_while_nobody_looks_is_one_hint_at_most(self, daemon: Daemon) -> None:
        feed = feed_of(runtime(daemon))
        await hint(feed)
        for _ in range(100):
            daemon.emit(b'{"Action": "start"}\n' * 1000)
        daemon.end_events()
        await daemon.until(lambda: not daemon.connections)

        with pytest.raises(RuntimeUnavailable):
            await hint(feed)

    async def test_megabytes_in_an_event_are_a_hint_like_any_other(self, daemon: Daemon) -> None:
        feed = feed_of(runtime(daemon))
        await hint(feed)

        daemon.emit(b"x" * 8_000_000)

        await hint(feed)
        await feed.aclose()

    @pytest.mark.parametrize("end", [Daemon.end_events, Daemon.cut_events])
    async def test_a_feed_that_ends_is_an_error_and_a_new_one_works(self, daemon: Daemon, end: object) -> None:
        docker = runtime(daemon)
        feed = feed_of(docker)
        await hint(feed)
        assert callable(end)
        end(daemon)

        with pytest.raises(RuntimeUnavailable, match="dockerd was stopped or restarted"):
            await hint(feed)
        again = feed_of(docker)
        await hint(again)
        await again.aclose()

    async def test_a_daemon_that_hangs_gives_no_feed_within_the_deadline(self, daemon: Daemon) -> None:
        daemon.hang()

        with pytest.raises(RuntimeUnavailable, match="does not answer within"):
            await hint(runtime(daemon, deadline=SOON).changes())
        await daemon.until(lambda: not daemon.connections)

    async def test_a_feed_is_silent_for_longer_than_the_deadline(self, daemon: Daemon) -> None:
        deadline = 1.0
        await runtime(daemon).snapshot()  # the SDK is imported
        feed = feed_of(runtime(daemon, deadline=deadline))
        await hint(feed)
        following = asyncio.ensure_future(hint(feed))

        # Twice the deadline is a socket's own time.
        done, _ = await asyncio.wait({following}, timeout=2.2 * deadline)

        assert not done
        daemon.emit(b"{}")
        await following
        await feed.aclose()

    async def test_a_refusal_is_an_error_and_no_hint(self, daemon: Daemon) -> None:
        daemon.answers["/events"] = response(b'{"message": "no such filter"}', status="400 Bad Request")

        with pytest.raises(RuntimeUnavailable, match="it refuses with status 400: no such filter"):
            await hint(runtime(daemon).changes())

    async def test_who_stops_listening_leaves_no_thread_and_no_connection(self, daemon: Daemon) -> None:
        """More feeds than there may be threads, on a daemon that says nothing."""
        docker = runtime(daemon)

        for _ in range(50):
            feed = feed_of(docker)
            await hint(feed)
            await feed.aclose()

        assert not docker._lines
        await daemon.until(lambda: not daemon.connections)
        assert (await docker.snapshot()).objects == ()

    async def test_who_is_cancelled_while_listening_leaves_no_connection(self, daemon: Daemon) -> None:
        async def listen() -> None:
            async for _ in runtime(daemon).changes():
                pass

        listening = asyncio.ensure_future(listen())
        await daemon.until(lambda: bool(daemon.asked_for("/events")))
        listening.cancel()

        with pytest.raises(asyncio.CancelledError):
            await listening
        await daemon.until(lambda: not daemon.connections)

    async def test_a_closed_runtime_ends_its_feeds(self, daemon: Daemon) -> None:
        docker = runtime(daemon)
        feed = docker.changes()
        await hint(feed)

        await docker.aclose()

        with pytest.raises(RuntimeUnavailable):
            await hint(feed)

    def test_a_loop_that_ends_while_somebody_listens_ends_the_thread_too(self) -> None:
        async def listen() -> None:
            async with a_daemon() as daemon:
                await hint(runtime(daemon).changes())

        asyncio.run(listen())

        assert not [each for each in threading.enumerate() if each.name.startswith("asyncio_")]


class TestQuiet:
    async def test_no_log_line_has_what_containers_carry(
        self, daemon: Daemon, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The libraries log their requests at most."""
        daemon.containers = [container(labels={f"annotation.{PREFIX}.secret": SECRET})]
        docker = runtime(daemon)

        with caplog.at_level(logging.DEBUG):
            view = await docker.snapshot()
            daemon.answers["/containers/json"] = response(json.dumps([SECRET]).encode())
            await unavailable(docker)
            daemon.answers["/containers/json"] = response(SECRET.encode())
            await unavailable(docker)

        assert [dict(thing.claimed) for thing in view.objects] == [{f"{PREFIX}.secret": SECRET}]
        assert "urllib3" in {record.name.partition(".")[0] for record in caplog.records}
        assert SECRET not in caplog.text

    async def test_neither_environment_nor_settings_of_the_docker_command_are_read(
        self, daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker" / "config.json").write_text('{"auths": {"x": {"auth": 7}}, "HttpHeaders": "broken"}')
        for name, text in {
            "HOME": str(tmp_path),
            "DOCKER_CONFIG": str(tmp_path / ".docker"),
            "DOCKER_HOST": "tcp://localhost:9",
            "DOCKER_API_VERSION": "1.20",
            "DOCKER_TLS_VERIFY": "1",
            "http_proxy": "http://localhost:9",
            "ALL_PROXY": "http://localhost:9",
        }.items():
            monkeypatch.setenv(name, text)

        assert (await runtime(daemon).snapshot()).objects == ()
        assert daemon.asked_for("/containers/json") == ["/v1.41/containers/json?limit=-1&all=1&size=0&trunc_cmd=0"]

    def test_the_sdk_is_imported_at_the_first_question_only(self) -> None:
        """It takes longer to import than all else until the daemon is registered."""
        program = (
            "import sys\n"
            "import adapters.docker.runtime as module\n"
            "module.DockerRuntime(endpoint='/s', prefixes=(), clock=None)\n"
            "print({'docker', 'requests', 'urllib3'} & set(sys.modules))\n"
        )

        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

        assert done.stdout == "set()\n"


class TestHints:
    async def test_a_flood_costs_the_loop_one_wakening(self, mocker: MockerFixture) -> None:
        hints = Hints()
        told = mocker.spy(asyncio.get_running_loop(), "call_soon_threadsafe")

        for _ in range(1000):
            hints.hint()
        await hints.next()

        assert told.call_count == 1

    async def test_what_happens_after_a_hint_is_another_one(self) -> None:
        hints = Hints()
        hints.hint()
        await hints.next()
        hints.hint()

        await hints.next()

    async def test_a_thread_that_outlives_its_loop_is_not_disturbed(self) -> None:
        hints = await asyncio.to_thread(asyncio.run, _made())

        hints.hint()


async def _made() -> Hints:
    return Hints()


class TestLine:
    def test_a_line_that_was_cut_cannot_be_dialled(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/s"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            line = Line(path)
            line.cut()

            with pytest.raises(ConnectionAbortedError):
                line.dial(1.0)

    def test_cutting_ends_a_read_in_another_thread_and_leaves_the_descriptor_to_its_owner(self, tmp_path: Path) -> None:
        path = f"{tmp_path}/s"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            line = Line(path)
            connection = line.dial(None)
            received: list[bytes] = []
            reader = threading.Thread(target=lambda: received.append(connection.recv(1)))
            reader.start()

            line.cut()
            line.cut()
            reader.join(PATIENCE)

            assert received == [b""]
            assert connection.fileno() != -1
            connection.close()
