"""What the CRI's runtime makes of a runtime that is large, odd, broken or hostile; a server of our own plays it."""

import asyncio
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator

import grpc
import pytest

from adapters._pb.cri.runtime.v1 import api_pb2 as cri
from adapters.cri.known import IN_FLIGHT
from adapters.cri.runtime import CriRuntime
from adapters.memory.clock import ManualClock
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.ports.runtime import RuntimeUnavailable
from tests.unit.cri_server import PREFIX, CriServer, a_cri_server, claims, directory

FAST = "com.example.fast"
MEBIBYTE = 1024 * 1024


@pytest.fixture
async def server() -> AsyncIterator[CriServer]:
    async with a_cri_server() as server:
        yield server


def reading(server: CriServer, *, deadline: float = 30.0) -> CriRuntime:
    """Return the adapter for the server's socket."""
    return CriRuntime(endpoint=server.path, prefixes=(PREFIX, FAST), clock=ManualClock(), deadline=deadline)


async def things(runtime: CriRuntime) -> dict[str, RuntimeObject]:
    """Read once; return the objects by id."""
    return {thing.id: thing for thing in (await runtime.snapshot()).objects}


class TestRecordings:
    """What real runtimes answered to a kubelet 1.36's pods."""

    @pytest.mark.parametrize("capture", ["cri.containerd.json", "cri.containerd2.json"])
    async def test_containerds_pod_is_seen_with_all_its_containers(self, server: CriServer, capture: str) -> None:
        server.load(capture)

        found = (await reading(server).snapshot()).objects

        pod = {thing.container: thing for thing in found if thing.kind is ObjectKind.CONTAINER}
        assert set(pod) == {"setup", "side", "dataplane", "probe", "plain"}
        assert {(thing.uid, thing.namespace, thing.name) for thing in pod.values()} == {
            ("77744a5ad184b36da67afaadfa2440ce", "telco", "cnf-node1")
        }
        assert {name: thing.state for name, thing in pod.items()} == {
            "setup": ObjectState.EXITED,
            **dict.fromkeys(("side", "dataplane", "probe", "plain"), ObjectState.RUNNING),
        }

    @pytest.mark.parametrize("capture", ["cri.containerd.json", "cri.containerd2.json", "cri.docker.json"])
    async def test_each_container_mounts_what_it_claims_and_the_plain_one_claims_nothing(
        self, server: CriServer, capture: str
    ) -> None:
        server.load(capture)

        found = [thing for thing in (await reading(server).snapshot()).objects if thing.container]

        for thing in found:
            claimed = thing.claimed.get(f"{PREFIX}.socket.host")
            assert (claimed is None) is (thing.container == "plain")
            assert thing.mounts.get("/run/vpp") == (claimed and claimed.removesuffix("/memif.sock"))
            assert set(thing.claimed) <= set(claims(1))
        assert sorted(server.statuses) == sorted(thing.id for thing in found if thing.container != "plain")

    async def test_the_sandbox_of_a_bygone_pod_is_seen_as_ended(self, server: CriServer) -> None:
        server.load("cri.containerd.json")

        found = (await reading(server).snapshot()).objects

        sandboxes = {thing.uid: thing.state for thing in found if thing.kind is ObjectKind.SANDBOX}
        assert sandboxes == {
            "9b4093f49087ba0b5ded8489bfdac179": ObjectState.EXITED,
            "77744a5ad184b36da67afaadfa2440ce": ObjectState.RUNNING,
        }

    async def test_old_sandboxes_of_cri_dockerd_belong_to_nobody(self, server: CriServer) -> None:
        """It lists thirty-one without uid and labels, whose metadata has a name all the same."""
        server.load("cri.docker.json")

        found = (await reading(server).snapshot()).objects

        owners = Counter((thing.uid, thing.namespace, thing.name) for thing in found if not thing.container)
        assert owners == {
            ("7840b51d898d27c456e56dab9e2d30f8", "default", "p3-node1"): 1,
            (None, None, None): 31,
        }

    @pytest.mark.parametrize(
        "capture, version",
        [
            ("cri.containerd.json", "containerd 1.6.20~ds1"),
            ("cri.containerd2.json", "containerd 2.4.0-beta+unknown"),
            ("cri.docker.json", "docker 20.10.24+dfsg1"),
        ],
    )
    async def test_the_identity_names_the_runtime(self, server: CriServer, capture: str, version: str) -> None:
        server.load(capture)

        assert (await reading(server).identity()).version == version


class TestTheCostOfAReading:
    async def test_a_full_node_costs_one_call_a_list_and_one_a_claimant(self, server: CriServer) -> None:
        claimants = []
        for number in range(500):
            server.sandbox(f"p{number}")
            made = server.container(f"p{number}", number=number if number % 5 == 0 else None)
            claimants += [made.id] if number % 5 == 0 else []

        found = await things(reading(server))

        assert len(found) == 1000
        assert server.asked == {"ListPodSandbox": 1, "ListContainers": 1, "ContainerStatus": 100}
        assert sorted(server.statuses) == sorted(claimants)
        assert all(found[f"container-{n}"].mounts["/run/vpp"] == directory(n) for n in range(0, 500, 5))
        assert all(found[f"container-{n}"].mounts == {} for n in range(500) if n % 5)

    async def test_only_a_few_containers_are_asked_for_at_a_time(self, server: CriServer) -> None:
        server.hanging.add("ContainerStatus")
        for number in range(3 * IN_FLIGHT):
            server.container("p", number=number)

        found = await things(reading(server, deadline=0.6))

        assert server.asked["ContainerStatus"] == IN_FLIGHT
        assert len(found) == 3 * IN_FLIGHT

    async def test_a_state_is_read_anew_each_time(self, server: CriServer) -> None:
        runtime = reading(server)
        sandbox, container = server.sandbox("p"), server.container("p", number=1)
        await runtime.snapshot()
        sandbox.state, container.state = cri.SANDBOX_NOTREADY, cri.CONTAINER_EXITED

        found = await things(runtime)

        assert {thing.state for thing in found.values()} == {ObjectState.EXITED}
        assert found[container.id].mounts["/run/vpp"] == directory(1)

    async def test_a_container_is_asked_for_once_in_its_life(self, server: CriServer) -> None:
        runtime = reading(server)
        one = server.container("p", number=1)
        await runtime.snapshot()
        other = server.container("p", number=2)

        found = await things(runtime)

        assert server.statuses == [one.id, other.id]
        assert [found[each.id].mounts["/run/vpp"] for each in (one, other)] == [directory(1), directory(2)]

    async def test_what_is_gone_is_forgotten(self, server: CriServer) -> None:
        """Or a daemon that runs for years would remember every container that it ever saw."""
        runtime = reading(server)
        one = server.container("p", number=1)
        await runtime.snapshot()
        server.remove(one)
        await runtime.snapshot()
        server.containers.append(one)

        await runtime.snapshot()

        assert server.statuses == [one.id, one.id]

    async def test_a_sandbox_that_is_gone_is_forgotten(self, server: CriServer) -> None:
        runtime = reading(server)
        server.sandbox("one")
        await runtime.snapshot()
        server.sandboxes.clear()
        await runtime.snapshot()
        server.sandbox("other")

        (thing,) = (await runtime.snapshot()).objects

        assert (thing.id, thing.name) == ("sandbox-0", "other")

    async def test_readings_at_the_same_time_do_not_spoil_each_other(self, server: CriServer) -> None:
        runtime = reading(server)
        for number in range(50):
            server.container("p", number=number)

        views = await asyncio.gather(*(things(runtime) for _ in range(8)))

        assert all(view[f"container-{n}"].mounts["/run/vpp"] == directory(n) for view in views for n in range(50))

    async def test_it_begins_before_the_first_question(self, server: CriServer) -> None:
        clock = ManualClock()
        before = clock.monotonic()
        server.hooks.append(lambda _: clock.advance(1))

        view = await CriRuntime(endpoint=server.path, prefixes=(PREFIX,), clock=clock).snapshot()

        assert view.began == before


class TestContainersThatComeAndGo:
    async def test_one_that_vanished_since_it_was_listed_is_left_out(self, server: CriServer) -> None:
        gone, other = server.container("p", number=1), server.container("p", number=2)
        server.gone.add(gone.id)

        assert set(await things(reading(server))) == {other.id}

    @pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code.name not in {"OK", "NOT_FOUND"}])
    async def test_one_whose_status_cannot_be_had_is_kept_by_what_it_claims(
        self, server: CriServer, code: grpc.StatusCode
    ) -> None:
        """cri-dockerd fails so on a container whose image is gone; every other container must still be released."""
        made = server.container("p", number=1, annotations=claims(2, prefix=FAST, inside="/run/fast"))
        server.faults["ContainerStatus"] = code

        thing = (await things(reading(server)))[made.id]

        assert thing.mounts == {}
        assert thing.claimed == {**claims(1), **claims(2, prefix=FAST, inside="/run/fast")}

    async def test_a_status_that_makes_no_sense_is_none(self, server: CriServer) -> None:
        made = server.container("p", number=1)
        server.raw["ContainerStatus"] = b"\xff\xff"

        assert (await things(reading(server)))[made.id].mounts == {}

    async def test_one_whose_status_could_not_be_had_is_asked_for_again(self, server: CriServer) -> None:
        runtime = reading(server)
        made = server.container("p", number=1)
        server.faults["ContainerStatus"] = grpc.StatusCode.UNKNOWN
        await runtime.snapshot()
        server.faults.clear()

        thing = (await things(runtime))[made.id]

        assert thing.mounts == {"/run/vpp": directory(1), "/etc/hosts": "/var/lib/kubelet/pods/x/etc-hosts"}

    async def test_one_on_which_the_runtime_hangs_holds_up_nobody(self, server: CriServer) -> None:
        stuck, *others = [server.container("p", number=number) for number in range(20)]
        server.hanging.add(stuck.id)

        found = await things(reading(server, deadline=1))

        assert found[stuck.id].mounts == {}
        assert found[stuck.id].claimed == claims(0)
        assert all("/etc/hosts" in found[other.id].mounts for other in others)

    async def test_what_is_really_mounted_counts_and_not_what_is_claimed(self, server: CriServer) -> None:
        """cri-dockerd shows labels of an image as annotations if they are named so, and anybody can make an image."""
        made = server.container("p", annotations=claims(1))
        server.mounts[made.id] = []

        assert (await things(reading(server)))[made.id].mounts == {}

    async def test_a_pod_made_again_under_its_name_is_another_one(self, server: CriServer) -> None:
        for uid in ("old", "new"):
            server.sandbox("cnf", uid=uid)

        found = (await reading(server).snapshot()).objects

        assert [(thing.namespace, thing.name, thing.uid) for thing in found] == [
            ("telco", "cnf", "old"),
            ("telco", "cnf", "new"),
        ]


class TestHostileContent:
    async def test_what_a_tenant_writes_on_a_pod_changes_nothing_but_its_sandboxs_claims(
        self, server: CriServer
    ) -> None:
        hostile = {
            f"{PREFIX}.socket.host": "/var/lib/kubelet/device-plugins/kubelet.sock",
            f"{PREFIX}.socket.container": "../../../run/vpp/memif.sock\x00",
            f"{PREFIX}.\u202esecret\n": "\x1b[2J",
        }
        forged = {"io.kubernetes.pod.uid": "another", "io.kubernetes.container.name": "a"}
        server.sandbox("cnf", annotations={**hostile, **forged}, labels=forged)

        (thing,) = (await reading(server).snapshot()).objects

        assert (thing.uid, thing.kind, thing.container) == ("uid-of-cnf", ObjectKind.SANDBOX, None)
        assert thing.claimed == hostile
        assert thing.mounts == {}
        assert server.statuses == []

    async def test_large_annotations_spoil_no_reading(self, server: CriServer) -> None:
        for number in range(6):
            server.sandbox(f"p{number}", annotations={"example.com/large": "x" * MEBIBYTE})
        made = server.container("p0", number=1, annotations={f"{PREFIX}.large": "y" * MEBIBYTE})

        found = await things(reading(server))

        assert len(found) == 7
        assert len(found[made.id].claimed[f"{PREFIX}.large"]) == MEBIBYTE

    async def test_more_than_the_kubelet_itself_takes_is_an_error_that_says_so(self, server: CriServer) -> None:
        for number in range(17):
            server.sandbox(f"p{number}", annotations={"example.com/large": "x" * MEBIBYTE})

        with pytest.raises(RuntimeUnavailable, match="16 MiB"):
            await reading(server).snapshot()

    @pytest.mark.parametrize("method, field", [("ListPodSandbox", 6), ("ListContainers", 9)])
    async def test_text_that_is_none_is_an_error_and_never_a_partial_view(
        self, server: CriServer, method: str, field: int
    ) -> None:
        server.sandbox("p")
        pair = b"\x0a\x01k\x12\x02\xff\xfe"
        item = bytes([field << 3 | 2, len(pair)]) + pair
        server.raw[method] = bytes([1 << 3 | 2, len(item)]) + item

        with pytest.raises(RuntimeUnavailable, match="no message of the CRI"):
            await reading(server).snapshot()

    async def test_no_secret_shows_in_what_is_printed(self, server: CriServer) -> None:
        server.container("p", number=1)
        runtime = reading(server)
        secret = claims(1)[f"{PREFIX}.secret"]

        assert secret not in repr(await runtime.snapshot())
        assert secret not in repr(runtime)


class TestARuntimeInTrouble:
    @pytest.mark.parametrize("method", ["ListPodSandbox", "ListContainers"])
    @pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
    async def test_a_list_that_fails_is_an_error_and_never_a_partial_view(
        self, server: CriServer, method: str, code: grpc.StatusCode
    ) -> None:
        server.sandbox("p")
        server.container("p")
        server.faults[method] = code

        with pytest.raises(RuntimeUnavailable, match=server.path):
            await reading(server).snapshot()

    @pytest.mark.parametrize("method", ["ListPodSandbox", "ListContainers"])
    async def test_one_that_hangs_is_an_error_at_the_deadline(self, server: CriServer, method: str) -> None:
        server.hanging.add(method)

        with pytest.raises(RuntimeUnavailable, match=r"within 0\.2 s"):
            await reading(server, deadline=0.2).snapshot()

    async def test_one_that_hangs_has_no_identity(self, server: CriServer) -> None:
        server.hanging.add("Version")

        with pytest.raises(RuntimeUnavailable, match=r"within 0\.2 s"):
            await reading(server, deadline=0.2).identity()

    async def test_a_reading_that_is_cancelled_is_cancelled(self, server: CriServer) -> None:
        server.hanging.add("ListContainers")
        task = asyncio.create_task(reading(server).snapshot())
        await server.until(lambda: server.asked["ListContainers"] == 1)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_one_that_ends_in_the_middle_of_a_reading_is_an_error(self, server: CriServer) -> None:
        server.hanging.add("ListContainers")
        task = asyncio.create_task(reading(server).snapshot())
        await server.until(lambda: server.asked["ListContainers"] == 1)
        await server.stop()

        with pytest.raises(RuntimeUnavailable):
            await task

    async def test_it_can_come_back_at_once_and_any_number_of_times(self, server: CriServer) -> None:
        runtime = reading(server)
        made = server.container("p", number=1)
        for _ in range(5):
            await server.stop()
            with pytest.raises(RuntimeUnavailable):
                await runtime.snapshot()
            await server.start()

            assert set(await things(runtime)) == {made.id}


class TestWrongSockets:
    @pytest.fixture
    def path(self, server: CriServer) -> str:
        """Beside the server's, where nothing is yet."""
        return f"{server.path}.2"

    async def test_no_socket(self, path: str) -> None:
        await self._refused(path, "No such file")

    async def test_a_file(self, path: str) -> None:
        with open(path, "w"):  # noqa: ASYNC230, PTH123 -- it is made at once
            pass

        await self._refused(path, "refused")

    async def test_a_socket_that_nobody_serves_any_more(self, path: str) -> None:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(path)

        await self._refused(path, "refused")

    async def test_a_path_that_means_something_in_a_uri(self, server: CriServer) -> None:
        path = f"{server.path}?#%41"
        os.link(server.path, path)

        identity = await CriRuntime(endpoint=path, prefixes=(PREFIX,), clock=ManualClock()).identity()

        assert identity.version == "fakerd 9.1"

    async def test_an_endpoint_may_be_written_as_the_kubelet_writes_it(self, server: CriServer) -> None:
        endpoint = f"unix://{server.path}"

        identity = await CriRuntime(endpoint=endpoint, prefixes=(PREFIX,), clock=ManualClock()).identity()

        assert identity.version == "fakerd 9.1"

    async def test_a_grpc_server_without_the_cri(self, path: str) -> None:
        """Docker's own containerd is one: its packages switch the plugin off."""
        containerd = CriServer(path)
        await containerd.start(service="containerd.services.containers.v1.Containers")
        try:
            await self._refused(path, "serves no CRI v1")
        finally:
            await containerd.stop()

    async def test_a_server_of_something_else(self, path: str) -> None:
        """Such as Docker's API, whose socket is as well known."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            await reader.read()  # until the client has seen that and goes
            writer.close()

        async with await asyncio.start_unix_server(answer, path):
            await self._refused(path, "http")

    async def test_a_server_that_never_says_anything(self, path: str) -> None:
        silent = asyncio.Event()

        async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await silent.wait()
            writer.close()

        async with await asyncio.start_unix_server(say_nothing, path):
            await self._refused(path, r"within 0\.3 s", deadline=0.3)
            silent.set()

    async def _refused(self, path: str, text: str, *, deadline: float = 30.0) -> None:
        runtime = CriRuntime(endpoint=path, prefixes=(PREFIX,), clock=ManualClock(), deadline=deadline)
        with pytest.raises(RuntimeUnavailable, match=text) as caught:
            await runtime.snapshot()

        assert path in str(caught.value)
