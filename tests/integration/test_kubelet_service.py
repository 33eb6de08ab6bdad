"""The device-plugin service as the kubelet meets it: a real server on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from grpc import aio

from adapters._pb.kubelet.deviceplugin.v1beta1 import api_pb2
from adapters.kubelet.refusals import UNFORESEEN
from adapters.kubelet.server import PluginServer, serving
from domain.answer import Answer
from domain.grant import UnknownDevice
from domain.identity import DeviceId
from domain.pool import Pool
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import OverBudget
from domain.start import NothingKnown, NotServing
from tests.integration.kubelet import RESOURCE, Core, Told, Watcher, a_directory, things, until


@dataclass
class Served:
    """A core that is served, and the kubelet's connection to it."""

    core: Core
    server: PluginServer
    kubelet: Watcher
    told: Told
    changes: list[int] = field(default_factory=list)

    def request(self, *containers: tuple[str, ...]) -> api_pb2.AllocateRequest:
        return api_pb2.AllocateRequest(
            container_requests=[api_pb2.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        )

    async def allocate(self, *containers: tuple[str, ...]) -> api_pb2.AllocateResponse:
        return await self.kubelet.stub.Allocate(self.request(*containers))

    async def refused(self, *containers: tuple[str, ...]) -> tuple[grpc.StatusCode, str]:
        """Return the status of an Allocate that is refused."""
        with pytest.raises(aio.AioRpcError) as caught:
            await self.allocate(*containers)
        return caught.value.code(), caught.value.details() or ""


@asynccontextmanager
async def serve(core: Core, directory: Path) -> AsyncIterator[Served]:
    told, changes = Told(), list[int]()
    path = f"{directory}/p.sock"
    async with serving(
        path=path, plugin=core, reports=told, changed=lambda: changes.append(1), interval=core.list_interval
    ) as server:
        kubelet = Watcher(path)
        try:
            yield Served(core, server, kubelet, told, changes)
        finally:
            await kubelet.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with a_directory() as directory:
        async with serve(Core(), directory) as made:
            yield made


class TestOptions:
    async def test_pre_start_is_wanted_and_a_preferred_allocation_is_not_offered(self, served: Served) -> None:
        """PreStartContainer is the one call that is repeated before every start of a container."""
        options = await served.kubelet.options()

        assert options.pre_start_required
        assert not options.get_preferred_allocation_available

    async def test_a_preferred_allocation_is_answered_all_the_same_with_no_preference(self, served: Served) -> None:
        request = api_pb2.PreferredAllocationRequest(
            container_requests=[
                api_pb2.ContainerPreferredAllocationRequest(available_deviceIDs=["a"], allocation_size=1),
                api_pb2.ContainerPreferredAllocationRequest(available_deviceIDs=["b"], allocation_size=1),
            ]
        )

        answer = await served.kubelet.stub.GetPreferredAllocation(request)

        assert [list(each.deviceIDs) for each in answer.container_responses] == [[], []]


class TestList:
    async def test_the_whole_list_is_sent_at_once(self, served: Served) -> None:
        served.kubelet.watch()
        await until(lambda: bool(served.kubelet.lists))

        assert served.kubelet.lists == [[(each, "Healthy") for each in served.core.ids]]

    async def test_a_change_of_health_is_sent_when_it_is_published_with_the_same_ids(self, served: Served) -> None:
        """Taking away an id whose Allocate is in flight crashes the kubelet, so only health ever changes."""
        served.kubelet.watch()
        await until(lambda: len(served.kubelet.lists) == 1)
        served.core.sick.add(served.core.ids[1])
        served.server.feed.publish()
        await until(lambda: len(served.kubelet.lists) == 2)

        assert [name for name, _ in served.kubelet.lists[1]] == list(served.core.ids)
        assert [health for _, health in served.kubelet.lists[1]] == ["Healthy", "Unhealthy", "Healthy", "Healthy"]

    async def test_with_an_interval_the_unchanged_list_comes_again_and_again(self) -> None:
        core = Core(Pool(resource=RESOURCE, capacity=2, list_interval=0.01))
        with a_directory() as directory:
            async with serve(core, directory) as served:
                served.kubelet.watch()
                await until(lambda: len(served.kubelet.lists) >= 4)

                assert served.kubelet.lists[0] == served.kubelet.lists[3]

    async def test_a_kubelet_that_closes_its_stream_is_counted_out(self, served: Served) -> None:
        served.kubelet.watch()
        await until(lambda: served.server.feed.streams == 1)
        await served.kubelet.leave()
        await until(lambda: served.server.feed.streams == 0)

        assert len(served.changes) == 2

    async def test_a_stream_cut_in_the_middle_ends_quietly_and_the_next_is_served(
        self, served: Served, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Another plugin stopped its whole server when it sent to a stream that a restart had killed."""
        served.kubelet.watch()
        await until(lambda: bool(served.kubelet.lists))
        await served.kubelet.close()
        for _ in range(10):
            served.server.feed.publish()
            await asyncio.sleep(0)
        await until(lambda: served.server.feed.streams == 0)
        again = Watcher(served.server.path)
        again.watch()
        await until(lambda: bool(again.lists))
        await again.close()

        assert served.told.warnings == []
        assert [record.getMessage() for record in caplog.records] == []

    async def test_a_closing_server_ends_its_streams_cleanly(self) -> None:
        """Without that, an endless stream burns the whole grace period of the server."""
        with a_directory() as directory:
            async with serve(Core(), directory) as served:
                served.kubelet.watch()
                await until(lambda: bool(served.kubelet.lists))
                ending = served.kubelet.ending
                served.server.feed.close()

                assert await ending.code() is grpc.StatusCode.OK

    async def test_a_reader_that_stops_reading_costs_no_more_than_its_own_stream(self) -> None:
        """Its list does not fit into the connection, so the server hangs in the middle of sending it."""
        core = Core(Pool(resource=RESOURCE, capacity=40_000))
        with a_directory() as directory:
            async with serve(core, directory) as served:
                call = served.kubelet.stub.ListAndWatch(api_pb2.Empty())
                await until(lambda: core.lists == 1)
                for _ in range(100):
                    served.server.feed.publish()
                answer = await served.allocate((core.ids[0],))
                other = Watcher(served.server.path)
                other.watch()
                await until(lambda: bool(other.lists))

                assert len(answer.container_responses) == 1
                assert len(other.lists[0]) == 40_000
                call.cancel()
                await until(lambda: served.server.feed.streams == 1)
                await other.close()

    async def test_a_list_close_to_the_kubelets_limit_arrives_whole(self) -> None:
        """The kubelet takes four MiB, which the default form of ids fills with 110 395 unhealthy devices."""
        core = Core(Pool(resource=RESOURCE, capacity=110_395))
        core.sick.update(core.ids)
        with a_directory() as directory:
            async with serve(core, directory) as served:
                served.kubelet.watch()
                await until(lambda: bool(served.kubelet.lists))

                assert len(served.kubelet.lists[0]) == 110_395

    async def test_a_list_that_cannot_be_made_ends_the_stream_without_telling_why(self, served: Served) -> None:
        def fail() -> tuple[()]:
            raise KeyError("Geheim")

        served.core.devices = fail  # type: ignore[method-assign]  # no core fails here
        call = served.kubelet.stub.ListAndWatch(api_pb2.Empty())

        assert await call.code() is grpc.StatusCode.INTERNAL
        assert await call.details() == UNFORESEEN
        assert served.told.warned("a call of the kubelet failed")[0]["fault"] == "KeyError"


class TestNumaNodes:
    """A kubelet that aligns pods with their devices can place none on a node that the machine does not have."""

    @pytest.mark.parametrize(
        "listing, listed", [("0-1,7", [7]), ("0-1", []), (None, [7])], ids=["is there", "is not there", "nobody knows"]
    )
    async def test_one_is_listed_unless_it(
        self, listing: str | None, listed: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        online = tmp_path / "online"
        if listing is not None:
            online.write_text(listing, encoding="ascii")
        monkeypatch.setattr("adapters.kubelet.numa.ONLINE", online)
        with a_directory() as directory:
            async with serve(Core(Pool(resource=RESOURCE, capacity=2, numa_node=7)), directory) as served:
                call = served.kubelet.stub.ListAndWatch(api_pb2.Empty())
                message = await call.read()
                call.cancel()

                assert isinstance(message, api_pb2.ListAndWatchResponse)
                assert [[node.ID for node in each.topology.nodes] for each in message.devices] == [listed] * 2
                assert [(facts["numa_node"], facts["present"]) for _, facts in served.told.warnings] == (
                    [] if listed else [([7], [0, 1])]
                )


class TestAllocate:
    async def test_each_container_request_has_its_answer(self, served: Served) -> None:
        one, two, three, _ = served.core.ids

        answer = await served.allocate((one, two), (three,))

        assert len(answer.container_responses) == 2
        for each in answer.container_responses:
            (mount,) = each.mounts
            assert mount.container_path == "/run/vpp"
            assert each.annotations["io.contivpp.memif.socket.host"] == f"{mount.host_path}/memif.sock"
            assert each.envs["MEMIF_SOCKET"] == "/run/vpp/memif.sock"
            assert each.envs["MEMIF_SECRET"] == each.annotations["io.contivpp.memif.secret"]

    @pytest.mark.parametrize(
        "error, code",
        [
            (UnknownDevice("x/9", "x", 4), grpc.StatusCode.NOT_FOUND),
            (NoRoom("4 % of the inodes are left"), grpc.StatusCode.RESOURCE_EXHAUSTED),
            (DirectoryUnusable("/var/run/contiv/memif is read-only"), grpc.StatusCode.FAILED_PRECONDITION),
            (JournalUnusable("the disk is full"), grpc.StatusCode.FAILED_PRECONDITION),
            (OverBudget("storing an allocation", 2.0), grpc.StatusCode.DEADLINE_EXCEEDED),
            (NotServing(), grpc.StatusCode.UNAVAILABLE),
        ],
        ids=lambda each: getattr(each, "name", type(each).__name__),
    )
    async def test_a_refusal_reaches_the_kubelet_with_its_code_and_its_text(
        self, served: Served, error: Exception, code: grpc.StatusCode
    ) -> None:
        served.core.error = error

        assert await served.refused((served.core.ids[0],)) == (code, str(error))
        (facts,) = served.told.warned("a call of the kubelet was refused")
        assert facts == {"call": "Allocate", "resource": RESOURCE, "code": code.name, "reason": str(error)}

    @pytest.mark.parametrize(
        "containers, code",
        [
            ((("nobody/1",),), grpc.StatusCode.NOT_FOUND),
            (((),), grpc.StatusCode.INVALID_ARGUMENT),
            ((), grpc.StatusCode.INVALID_ARGUMENT),
            (((f"{RESOURCE}/1", f"{RESOURCE}/1"),), grpc.StatusCode.INVALID_ARGUMENT),
            (((f"{RESOURCE}/1",), ("nobody/1",)), grpc.StatusCode.NOT_FOUND),
        ],
        ids=["an unknown id", "no id", "no request", "an id twice", "one good and one unknown"],
    )
    async def test_what_is_wrong_with_a_request_has_its_code(
        self, served: Served, containers: tuple[tuple[str, ...], ...], code: grpc.StatusCode
    ) -> None:
        assert (await served.refused(*containers))[0] is code

    async def test_what_nobody_foresaw_is_told_to_nobody(self, served: Served) -> None:
        """gRPC would send the text of any exception to the kubelet, which shows it in the pod's status."""
        served.core.error = RuntimeError("Geheim")

        assert await served.refused((served.core.ids[0],)) == (grpc.StatusCode.INTERNAL, UNFORESEEN)
        assert "Geheim" not in repr(served.told.warnings)
        (facts,) = served.told.warned("a call of the kubelet failed")
        assert facts["fault"] == "RuntimeError"

    async def test_an_answer_that_cannot_be_sent_is_told_to_nobody(self, served: Served) -> None:
        async def allocate(requests: object) -> tuple[Answer, ...]:
            del requests
            return (Answer(envs={"MEMIF_SECRET": "Geheim\ud800"}),)

        served.core.allocate = allocate  # type: ignore[method-assign]  # no core gives such an answer

        assert await served.refused((served.core.ids[0],)) == (grpc.StatusCode.INTERNAL, UNFORESEEN)

    async def test_after_a_failure_the_next_call_is_served(self, served: Served) -> None:
        served.core.error = RuntimeError("once")
        await served.refused((served.core.ids[0],))
        served.core.error = None

        assert len((await served.allocate((served.core.ids[0],))).container_responses) == 1

    async def test_a_call_that_the_kubelet_gives_up_is_cancelled_in_the_core(self, served: Served) -> None:
        """Whatever was done for it must be undone: nobody will ever mount it."""
        served.core.hold.clear()
        call = served.kubelet.stub.Allocate(served.request((served.core.ids[0],)))
        async with asyncio.timeout(10):
            await served.core.entered.wait()
        call.cancel()
        await until(lambda: served.core.cancelled == 1)
        served.core.hold.set()

        assert len((await served.allocate((served.core.ids[0],))).container_responses) == 1
        await until(lambda: bool(served.told.noted("the kubelet gave up a call")))
        assert served.told.warnings == []

    async def test_calls_wait_for_each_other_no_more_than_the_core_makes_them(self, served: Served) -> None:
        """Admissions come one by one, but a pod worker's late Allocate may come while one is in flight."""
        served.core.hold.clear()
        calls = [asyncio.ensure_future(served.allocate((each,))) for each in served.core.ids]
        await until(lambda: len(served.core.calls) == 4)
        served.core.hold.set()

        assert [len((await call).container_responses) for call in calls] == [1, 1, 1, 1]

    async def test_many_calls_are_answered_while_twenty_streams_are_open(self) -> None:
        """A pool of threads is starved by its streams, and the kubelet may leave a stream at each restart."""
        core = Core(Pool(resource=RESOURCE, capacity=50))
        with a_directory() as directory:
            async with serve(core, directory) as served:
                kubelets = [Watcher(served.server.path) for _ in range(20)]
                kubelets[0].watch()
                await until(lambda: bool(kubelets[0].lists))
                before = things()
                for each in kubelets[1:]:
                    each.watch()
                await until(lambda: served.server.feed.streams == 20)
                answers = await asyncio.gather(*(served.allocate((each,)) for each in core.ids))

                assert things().threads == before.threads
                assert things().pool < before.pool + 10
                assert len({each.container_responses[0].mounts[0].host_path for each in answers}) == 50
                assert all(each.watching for each in kubelets)
                for each in kubelets:
                    await each.close()


class TestPreStart:
    async def test_the_ids_reach_the_core(self, served: Served) -> None:
        await served.kubelet.stub.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=["b", "a"]))

        assert served.core.calls == [("PreStartContainer", ("b", "a"))]

    async def test_no_ids_are_handed_over_as_none(self, served: Served) -> None:
        await served.kubelet.stub.PreStartContainer(api_pb2.PreStartContainerRequest())

        assert served.core.calls == [("PreStartContainer", ())]

    async def test_a_refusal_has_the_code_by_which_the_kubelet_tries_again(self, served: Served) -> None:
        served.core.error = NothingKnown([DeviceId("x/1")])

        with pytest.raises(aio.AioRpcError, match="delete the pod so that it is admitted anew") as caught:
            await served.kubelet.stub.PreStartContainer(api_pb2.PreStartContainerRequest(devices_ids=["x/1"]))

        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
