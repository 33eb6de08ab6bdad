"""What containerd's runtime makes of a node that is large, odd, broken or hostile; a server of our own plays it."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from adapters.containerd import api
from adapters.containerd.descriptors import PackageNotUnderstood
from adapters.containerd.runtime import ContainerdRuntime
from adapters.memory.clock import ManualClock
from domain.evidence import ObjectKind, ObjectState, RuntimeObject
from domain.ports.runtime import AnswerTooLarge, RuntimeIdentity, RuntimeUnavailable
from tests.unit.containerd_server import (
    PREFIX,
    ContainerdServer,
    a_containerd,
    claims,
    container,
    directory,
    record,
    sandbox,
    specification,
)

MEBIBYTE = 1024 * 1024


@pytest.fixture
async def server() -> AsyncIterator[ContainerdServer]:
    async with a_containerd() as server:
        yield server


def reading(server: ContainerdServer, *, deadline: float = 30.0) -> ContainerdRuntime:
    """Return the adapter for the server's socket."""
    return ContainerdRuntime(endpoint=server.path, prefixes=(PREFIX,), clock=ManualClock(), deadline=deadline)


async def things(runtime: ContainerdRuntime) -> dict[str, RuntimeObject]:
    """Read once; return the objects by id."""
    return {thing.id: thing for thing in (await runtime.snapshot()).objects}


@pytest.mark.parametrize("capture", ["containerd-containers.json", "containerd2-containers.json"])
class TestRecordings:
    """What real ones showed of a kubelet 1.36's pods."""

    async def test_a_pod_is_seen_with_init_container_sidecar_and_app_containers(
        self, server: ContainerdServer, capture: str
    ) -> None:
        server.load(capture)

        found = (await reading(server).snapshot()).objects

        pod = {thing.container: thing for thing in found if thing.kind is ObjectKind.CONTAINER}
        assert {(thing.uid, thing.namespace, thing.name) for thing in pod.values()} == {
            ("77744a5ad184b36da67afaadfa2440ce", "telco", "cnf-node1")
        }
        assert {name: thing.state for name, thing in pod.items()} == {
            "setup": ObjectState.EXITED,
            **dict.fromkeys(("side", "dataplane", "probe", "plain"), ObjectState.RUNNING),
        }

    async def test_each_container_mounts_what_it_claims_and_the_plain_one_claims_nothing(
        self, server: ContainerdServer, capture: str
    ) -> None:
        server.load(capture)

        found = [thing for thing in (await reading(server).snapshot()).objects if thing.container]

        assert len(found) == 5
        for thing in found:
            claimed = thing.claimed.get(f"{PREFIX}.socket.host")
            assert (claimed is None) is (thing.container == "plain")
            assert thing.mounts.get("/run/vpp") == (claimed and claimed.removesuffix("/memif.sock"))
            assert set(thing.claimed) <= set(claims(1))

    async def test_sandboxes_show_their_pods_and_mount_nothing(self, server: ContainerdServer, capture: str) -> None:
        server.load(capture)

        found = [thing for thing in (await reading(server).snapshot()).objects if thing.kind is ObjectKind.SANDBOX]

        owners = {(thing.namespace, thing.name): thing.state for thing in found}
        assert owners[("telco", "cnf-node1")] is ObjectState.RUNNING
        assert all(thing.uid and thing.container is None and not thing.mounts for thing in found)


class TestOneReading:
    async def test_a_full_node_costs_one_call_a_list(self, server: ContainerdServer) -> None:
        for number in range(250):
            server.add(sandbox(f"p{number}"), container(f"p{number}", number=number))

        found = await things(reading(server))

        assert len(found) == 500
        assert server.asked == {"Containers/ListStream": 1, "Tasks/List": 1}
        assert all(found[f"a-of-p{n}-in-telco"].mounts["/run/vpp"] == directory(n) for n in range(250))

    async def test_it_asks_for_one_namespace_the_kubelets_unless_told_otherwise(self, server: ContainerdServer) -> None:
        await reading(server).snapshot()
        other = ContainerdRuntime(endpoint=server.path, namespace="mine", prefixes=(), clock=ManualClock())
        await other.snapshot()

        assert server.namespaces == {"k8s.io", "mine"}

    async def test_it_begins_before_the_first_question(self, server: ContainerdServer) -> None:
        clock = ManualClock()
        runtime = ContainerdRuntime(endpoint=server.path, prefixes=(), clock=clock)
        before = clock.monotonic()
        server.hold.add("Containers/ListStream")
        async with asyncio.TaskGroup() as group:
            view = group.create_task(runtime.snapshot())
            await server.until(lambda: server.asked["Containers/ListStream"] == 1)
            clock.advance(5)
            await server.release()

        assert view.result().began == before

    async def test_pods_of_one_name_in_two_namespaces_are_told_apart(self, server: ContainerdServer) -> None:
        server.add(container("cnf", namespace="red", number=1), container("cnf", namespace="blue", number=2))

        found = await things(reading(server))

        assert {(thing.namespace, thing.mounts["/run/vpp"]) for thing in found.values()} == {
            ("red", directory(1)),
            ("blue", directory(2)),
        }

    async def test_a_container_removed_between_the_two_lists_is_shown_once_more_and_is_no_fault(
        self, server: ContainerdServer
    ) -> None:
        server.add(container("cnf"), status=None)

        (thing,) = (await reading(server).snapshot()).objects

        assert thing.state is ObjectState.EXITED

    async def test_a_task_without_a_container_is_nothing(self, server: ContainerdServer) -> None:
        server.add(container("cnf"))
        server.tasks["made-in-between"] = "RUNNING"

        assert set(await things(reading(server))) == {"a-of-cnf-in-telco"}

    async def test_one_container_that_is_not_understood_spoils_nothing(self, server: ContainerdServer) -> None:
        mount = {"destination": "/run/vpp", "type": "bind", "source": directory(2)}
        broken = record("broken", spec=specification([mount]))
        broken.extensions["e"].type_url = "github.com/containerd/cri/pkg/store/container/Metadata"
        broken.extensions["e"].value = b"\xff{"
        server.add(container("cnf", number=1), broken)

        found = await things(reading(server))

        assert found["a-of-cnf-in-telco"].uid == "uid-of-cnf"
        assert (found["broken"].uid, found["broken"].mounts) == (None, {"/run/vpp": directory(2)})

    async def test_a_label_that_is_no_utf_8_spoils_nothing(self, server: ContainerdServer) -> None:
        """containerd takes such, and protobuf refuses to decode it; but nothing of a record's labels is read."""
        server.add(record("c", own_labels={"x": "????"}))
        server.mangle = (b"????", b"\xff" * 4)

        assert set(await things(reading(server))) == {"c"}

    async def test_no_claim_shows_in_a_printed_view(self, server: ContainerdServer) -> None:
        server.add(container("cnf", number=1))

        assert "averygoodsecret4u" not in repr(await reading(server).snapshot())

    async def test_the_identity_is_containerds_own(self, server: ContainerdServer) -> None:
        server.version = "2.4.0"

        assert await reading(server).identity() == RuntimeIdentity(kind="containerd", version="2.4.0")


class TestLargeAnswers:
    async def test_tenants_with_megabytes_of_environment_hide_nobody(self, server: ContainerdServer) -> None:
        """All records together are more than a message may have."""
        for number in range(4):
            server.add(container(f"p{number}", number=number, envs={"X": "y" * 5 * MEBIBYTE}))

        found = await things(reading(server))

        assert sorted(thing.mounts["/run/vpp"] for thing in found.values()) == [directory(n) for n in range(4)]
        assert server.asked["Containers/List"] == 0

    async def test_a_single_record_that_is_too_large_makes_the_view_unknown_and_says_what_to_do(
        self, server: ContainerdServer
    ) -> None:
        server.add(container("cnf"), container("huge", envs={"X": "y" * 17 * MEBIBYTE}))

        with pytest.raises(AnswerTooLarge, match=r"RESOURCE_EXHAUSTED.*runtime\.kind to cri"):
            await reading(server).snapshot()


class TestAnOldContainerd:
    async def test_one_without_a_stream_is_asked_for_all_at_once(self, server: ContainerdServer) -> None:
        server.faults["Containers/ListStream"] = grpc.StatusCode.UNIMPLEMENTED
        server.add(sandbox("cnf"), container("cnf", number=1))

        found = await things(reading(server))

        assert set(found) == {"sandbox-of-cnf", "a-of-cnf-in-telco"}
        assert server.asked == {"Containers/ListStream": 1, "Containers/List": 1, "Tasks/List": 1}

    @pytest.mark.parametrize(
        "code", [each for each in grpc.StatusCode if each not in {grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED}]
    )
    async def test_for_no_other_reason(self, server: ContainerdServer, code: grpc.StatusCode) -> None:
        server.faults["Containers/ListStream"] = code

        with pytest.raises(RuntimeUnavailable, match=code.name):
            await reading(server).snapshot()

        assert server.asked == {"Containers/ListStream": 1}

    async def test_a_stream_that_ends_half_way_is_an_error_and_not_begun_again(self, server: ContainerdServer) -> None:
        server.add(*(container(f"p{number}") for number in range(5)))
        server.cut_after = 2

        with pytest.raises(RuntimeUnavailable, match="half way"):
            await reading(server).snapshot()

        assert server.asked["Containers/List"] == 0


class TestTrouble:
    @pytest.mark.parametrize("method", ["Containers/ListStream", "Tasks/List"])
    async def test_a_list_that_fails_is_an_error_and_never_a_part_of_the_view(
        self, server: ContainerdServer, method: str
    ) -> None:
        server.add(container("cnf"))
        server.faults[method] = grpc.StatusCode.INTERNAL

        with pytest.raises(RuntimeUnavailable, match=f"{method} is out of order"):
            await reading(server).snapshot()

    @pytest.mark.parametrize("method", ["Containers/ListStream", "Tasks/List"])
    async def test_a_list_that_hangs_is_an_error_within_the_deadline(
        self, server: ContainerdServer, method: str
    ) -> None:
        server.hold.add(method)

        with pytest.raises(RuntimeUnavailable, match=r"within 0\.2 s"):
            await reading(server, deadline=0.2).snapshot()

    @pytest.mark.parametrize("method", ["Containers/ListStream", "Tasks/List", "Version/Version"])
    async def test_an_answer_that_is_no_message_is_an_error_that_repeats_nothing_of_it(
        self, server: ContainerdServer, method: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        server.raw[method] = b"\xffsecret"
        runtime = reading(server)

        with pytest.raises(RuntimeUnavailable, match="does not speak containerd's API") as caught:
            await (runtime.identity() if method.startswith("Version") else runtime.snapshot())

        assert "secret" not in str(caught.value)
        assert not caplog.records

    async def test_a_reading_that_failed_spoils_no_later_one(self, server: ContainerdServer) -> None:
        runtime = reading(server)
        server.add(container("cnf", number=1))
        before = await things(runtime)
        server.faults["Tasks/List"] = grpc.StatusCode.UNAVAILABLE
        with pytest.raises(RuntimeUnavailable):
            await runtime.snapshot()
        server.faults.clear()

        assert await things(runtime) == before

    async def test_one_that_was_replaced_behind_its_socket_is_read_at_once(self, server: ContainerdServer) -> None:
        """No back-off of an old connection comes in between."""
        runtime = reading(server)
        for _ in range(3):
            await server.stop()
            with pytest.raises(RuntimeUnavailable, match="UNAVAILABLE"):
                await runtime.snapshot()
            await server.start()
            assert await things(runtime) == {}

    async def test_who_gives_up_waiting_is_not_told_that_containerd_failed(self, server: ContainerdServer) -> None:
        server.hold.add("Tasks/List")
        task = asyncio.create_task(reading(server).snapshot())
        await server.until(lambda: server.asked["Tasks/List"] == 1)
        task.cancel()

        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_a_package_that_is_not_as_expected_makes_the_view_unknown(
        self, server: ContainerdServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail() -> None:
            raise PackageNotUnderstood("the package is odd: set runtime.kind to cri")

        monkeypatch.setattr(api, "load", fail)
        runtime = reading(server)

        with pytest.raises(RuntimeUnavailable, match=r"set runtime\.kind to cri"):
            await runtime.snapshot()
        with pytest.raises(RuntimeUnavailable, match=r"set runtime\.kind to cri"):
            await anext(runtime.changes())
        assert not server.asked


class TestTheEndpoint:
    async def test_may_be_a_path_or_a_url(self, server: ContainerdServer) -> None:
        for endpoint in (server.path, f"unix://{server.path}"):
            runtime = ContainerdRuntime(endpoint=endpoint, prefixes=(), clock=ManualClock())
            assert (await runtime.identity()).version

    @pytest.mark.parametrize("endpoint", ["", "containerd.sock", "tcp://127.0.0.1:1", "unix:run/x.sock", "unix://x"])
    def test_must_be_a_unix_socket(self, endpoint: str) -> None:
        with pytest.raises(ValueError, match="no Unix socket"):
            ContainerdRuntime(endpoint=endpoint, prefixes=(), clock=ManualClock())

    async def test_that_is_not_there_is_named(self) -> None:
        runtime = ContainerdRuntime(endpoint="/run/no/such.sock", prefixes=(), clock=ManualClock())

        with pytest.raises(RuntimeUnavailable, match=r"/run/no/such\.sock.*see whether containerd runs"):
            await runtime.snapshot()
