"""The commands that talk to the daemon, as processes, against a daemon that is one too."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from adapters.memory.node import PodSpec
from tests.e2e.commands import CNF, Served, a_served, command, ran, unreachable
from tests.e2e.daemon import RESOURCE, a_stand
from tests.integration.filesystem import short_place

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with a_served() as made:
        yield made


class TestStatus:
    async def test_for_people(self, served: Served) -> None:
        done = await served.ask("status")

        assert (done.code, done.error) == (0, "")
        assert "kubelet        reachable, restarted 0 times" in done.out
        assert f"{RESOURCE}  yes         yes      8" in done.out
        assert "\x1b" not in done.out

    async def test_for_programs(self, served: Served) -> None:
        done = await served.ask("status", "--json")

        assert set(done.json) == {
            "version",
            "instance",
            "role",
            "since",
            "runtime",
            "kubelet",
            "views",
            "pools",
            "allocations",
            "reconcile",
            "config",
        }
        assert done.json["pools"][0]["registered"] is True
        assert done.json["allocations"] == {"pending": 1, "bound": 0}

    async def test_the_socket_may_come_from_the_environment(self, served: Served) -> None:
        for name in ("MEMIF_DP_CONTROL_SOCKET", "MEMIF_DP_CONTROL__SOCKET"):
            assert (await ran("status", environment={name: served.socket})).code == 0


class TestPod:
    async def test_for_people_the_secret_is_hidden(self, served: Served) -> None:
        done = await served.ask("pod", "telco/cnf")

        assert (done.code, done.error) == (0, "")
        assert f"pod telco/cnf (uid {served.pod.uid})" in done.out
        assert "secret       ***" in done.out
        assert served.secret not in done.out

    async def test_for_programs(self, served: Served) -> None:
        done = await served.ask("pod", "telco/cnf", "--json", "--uid", served.pod.uid)
        (container,) = done.json["containers"]

        assert done.json["pod"] == {"namespace": "telco", "name": "cnf", "uid": served.pod.uid}
        assert done.json["stale"] is False
        assert container["host_socket"] == served.pod.container("app").annotations["io.contivpp.memif.socket.host"]
        assert (container["secret"], len(container["devices"])) == ("***", 2)

    async def test_the_secret_is_shown_to_who_asks(self, served: Served) -> None:
        shown = await served.ask("pod", "telco/cnf", "--show-secret")
        told = await served.ask("pod", "telco/cnf", "--show-secret", "--json")

        assert served.secret in shown.out
        assert told.json["containers"][0]["secret"] == served.secret

    @pytest.mark.parametrize("name,reason", [("telco/nobody", "NO_POD"), ("telco/plain", "NO_MEMIF")])
    async def test_one_without_is_not_found(self, served: Served, name: str, reason: str) -> None:
        done = await served.ask("pod", name, "--json")

        assert done.code == 4
        assert done.json["error"]["reason"] == reason
        assert done.error == f"Error: {done.json['error']['message']}\n"

    async def test_waiting_for_one_that_is_about_to_come(self, served: Served) -> None:
        spec = PodSpec(namespace="telco", name="late", containers=CNF.containers)
        waiting = asyncio.create_task(served.ask("pod", "telco/late", "--json", "--wait", "30"))
        pod = await served.stand.node.start(spec)
        done = await waiting
        await served.stand.node.delete(pod)

        assert (done.code, done.json["pod"]["uid"]) == (0, pod.uid)

    async def test_waiting_in_vain_ends_when_the_time_is_over(self, served: Served) -> None:
        done = await served.ask("pod", "telco/nobody", "--wait", "0.1")

        assert (done.code, done.out) == (4, "")


async def test_allocations(served: Served) -> None:
    people = await served.ask("allocations")
    programs = await served.ask("allocations", "--json")
    mine = [each for each in programs.json if each["pod"] and each["pod"]["uid"] == served.pod.uid]

    assert people.out.startswith("ID ")
    assert len(mine) == 1
    assert (mine[0]["state"], mine[0]["container"], mine[0]["secret"]) == ("pending", "app", "***")
    assert "checkpoint" in mine[0]["held_by"]
    assert mine[0]["id"] in people.out


async def test_release_of_a_pod_that_is_in_use_is_refused(served: Served) -> None:
    done = await served.ask("release", "telco/cnf", "--uid", served.pod.uid, "--json")

    assert (done.code, done.json["error"]["reason"]) == (7, "IN_USE")
    assert done.error.count("\n") == 1


async def test_reconcile_shows_what_it_would_do(served: Served) -> None:
    people = await served.ask("reconcile", "--dry-run")
    programs = await served.ask("reconcile", "--dry-run", "--json")

    assert people.code == 0
    assert programs.json["dry_run"] is True
    assert {each["effect"] for each in programs.json["effects"]} <= {"wait", "ask"}


class TestWatch:
    async def test_it_follows_and_ends_when_it_is_interrupted(self, served: Served) -> None:
        process = await command("watch", "--json", "--control-socket", served.socket)
        assert process.stdout is not None
        lines = [json.loads(await process.stdout.readline())]
        while lines[-1]["type"] != "SYNCED":
            lines.append(json.loads(await process.stdout.readline()))
        pod = await served.stand.node.start(PodSpec(namespace="telco", name="new", containers=CNF.containers))
        event = json.loads(await process.stdout.readline())
        process.send_signal(signal.SIGINT)
        _, error = await process.communicate()
        await served.stand.node.delete(pod)

        assert set(event) == {"instance", "seq", "type", "allocation"}
        assert (event["type"], event["instance"]) == ("ALLOCATED", lines[-1]["instance"])
        assert event["seq"] == lines[-1]["seq"] + 1
        assert event["allocation"]["secret"] == "***"
        assert (process.returncode, error.strip()) == (130, b"")


async def test_force_and_what_is_left_of_it(served: Served) -> None:
    pod = await served.stand.node.start(PodSpec(namespace="telco", name="stuck", containers=CNF.containers))
    uid = ("--uid", pod.uid)
    done = await served.ask("release", "telco/stuck", *uid, "--force")
    listed = await served.ask("allocations", "--json")
    again = await served.ask("pod", "telco/stuck", "--json")
    name = done.out.removeprefix("released ").strip()
    await served.stand.node.delete(pod)

    assert done.code == 0
    assert name not in served.stand.directories
    assert [each["held_by"][-1] for each in listed.json if each["id"] == name] == ["forced"]
    assert again.json["error"]["reason"] in {"NO_MEMIF", "UNKNOWN_NOW"}  # the latter for a second after an Allocate


async def test_no_secret_is_in_the_daemon_s_log(served: Served) -> None:
    assert not [line for line in served.daemon.stderr if served.secret in line]


@pytest.mark.parametrize(
    "arguments", [("pod", "cnf"), ("pod", "/cnf"), ("release", "a/b/c"), ("pod",), ("status", "x")]
)
async def test_what_cannot_be_understood_is_one_line(arguments: tuple[str, ...]) -> None:
    done = await ran(*arguments)

    assert (done.code, done.out) == (2, "")
    assert done.error.count("\n") == 1
    assert done.error.startswith("Error: ")


class TestOffline:
    async def test_while_the_daemon_is_down_its_journal_tells(self) -> None:
        async with a_stand() as stand:
            daemon = await stand.registered()
            pod = await stand.node.start(CNF)
            await daemon.kill()
            state = str(stand.state_dir / "state.db")
            people = await ran("allocations", "--offline", "--state", state)
            programs = await ran("allocations", "--offline", "--json", "--config", str(stand.root / "plugin.yaml"))
            await stand.node.delete(pod)

        (allocation,) = programs.json
        assert allocation["host_socket"] == pod.container("app").annotations["io.contivpp.memif.socket.host"]
        assert (allocation["secret"], allocation["held_by"]) == ("***", None)
        assert allocation["id"] in people.out

    async def test_without_a_journal_it_says_so(self) -> None:
        with short_place() as place:
            line = await unreachable("allocations", "--offline", "--state", str(place / "state.db"))

            assert "there is no journal" in line
            assert list(place.iterdir()) == []


async def test_the_demo_can_be_asked_as_well() -> None:
    with short_place() as place:
        demo = await command("demo", "--serve", environment={"TMPDIR": str(place), "PYTHONUNBUFFERED": "1"})
        assert demo.stdout is not None
        line = b""
        while b"--control-socket" not in line:
            line = await demo.stdout.readline()
            assert line
        socket_flag = line.decode().split()
        asked = [await ran(*each, *socket_flag) for each in (("status",), ("pod", "telco/cnf"), ("allocations",))]
        demo.send_signal(signal.SIGTERM)
        await demo.communicate()

    assert [each.code for each in asked] == [0, 0, 0]
    assert all(name in asked[1].out for name in ("setup", "side", "dataplane", "probe"))
    assert demo.returncode == 0
