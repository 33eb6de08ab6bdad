"""The control API on real sockets: the daemon, an embedded kubelet, and clients that know the protocol alone."""

import asyncio
import socket as raw
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from adapters._pb.memif.v1 import memif_pb2
from adapters.memory.node import ContainerKind, ContainerSpec, Pod, PodSpec
from app.daemon import EnvironmentUnusable
from app.settings import ControlSettings, ReconcileSettings, Settings
from domain.events import EventLog
from domain.identity import AllocationId
from domain.ledger import Standing
from tests.integration.control import channel, client, reason, told, types
from tests.integration.daemon import GRACE, INTERVAL, RESOURCE, House, Stand, a_stand

ALLOCATED, BOUND = memif_pb2.EVENT_TYPE_ALLOCATED, memif_pb2.EVENT_TYPE_BOUND
RELEASED, SYNCED = memif_pb2.EVENT_TYPE_RELEASED, memif_pb2.EVENT_TYPE_SYNCED
RESYNC_NEEDED = memif_pb2.EVENT_TYPE_RESYNC_NEEDED

CNF = PodSpec(
    namespace="telco",
    name="cnf",
    containers=(
        ContainerSpec(name="setup", limits={RESOURCE: 1}, kind=ContainerKind.INIT),
        ContainerSpec(name="app", limits={RESOURCE: 2}),
    ),
)
PLAIN = PodSpec(namespace="telco", name="plain", containers=(ContainerSpec(name="app", limits={}),))


class Served:
    """A daemon with both sockets."""

    def __init__(self, stand: Stand, house: House) -> None:
        self.stand = stand
        self.house = house
        self.control = Path(house.settings.control.socket)
        self.agent = Path(str(house.settings.control.agent_socket))

    async def pod(self, spec: PodSpec = CNF) -> Pod:
        """Start a pod and have its allocations bound."""
        pod = await self.stand.node.start(spec)
        await self.house.reconcile()
        return pod

    @property
    def names(self) -> list[AllocationId]:
        """The living allocations."""
        return [each.id for each in self.house.live]

    @property
    def secrets(self) -> list[str]:
        """Their secrets."""
        return [each.secret.reveal() for each in self.house.live]


def with_agent(stand: Stand, **control: object) -> Settings:
    """Return settings with both sockets."""
    paths = {"socket": str(stand.root / "control.sock"), "agent_socket": str(stand.root / "agent.sock")}
    return stand.settings().model_copy(update={"control": ControlSettings.model_validate({**paths, **control})})


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with a_stand() as stand:
        house = await stand.serve(with_agent(stand))
        served = Served(stand, house)
        await house.until(served.agent.is_socket)
        yield served


@pytest.fixture(params=["control", "agent"])
def socket(request: pytest.FixtureRequest, served: Served) -> Path:
    """Each of the two sockets."""
    path: Path = getattr(served, request.param)
    return path


async def refusal(call: object, code: grpc.StatusCode) -> aio.AioRpcError:
    """Have a call refused with a code."""
    with pytest.raises(aio.AioRpcError) as refused:
        await call  # type: ignore[misc]  # any kind of call
    assert refused.value.code() is code
    return refused.value


class TestSockets:
    async def test_the_control_socket_is_root_s_and_the_agent_socket_its_group_s(self, served: Served) -> None:
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (served.control, served.agent)]

        assert modes == [0o600, 0o660]

    async def test_mode_and_group_are_as_configured(self) -> None:
        async with a_stand() as stand:
            house = await stand.serve(with_agent(stand, mode="0660"))
            await house.until((stand.root / "agent.sock").is_socket)

            assert stat.S_IMODE((stand.root / "control.sock").stat().st_mode) == 0o660

    async def test_both_are_gone_when_the_daemon_has_stopped(self, served: Served) -> None:
        await served.house.stop()

        assert not served.control.exists()
        assert not served.agent.exists()

    async def test_a_standby_opens_none(self, served: Served) -> None:
        settings = with_agent(served.stand)
        other = settings.model_copy(update={"control": ControlSettings(socket=str(served.stand.root / "second.sock"))})
        standby = served.stand.begin(other, instance="two")
        await standby.heard_of("standby: another process serves this node")
        assert not (served.stand.root / "second.sock").exists()
        await served.house.stop()

        await standby.until((served.stand.root / "second.sock").is_socket)

    @pytest.mark.parametrize("which", ["socket", "agent_socket"])
    async def test_where_another_process_answers_the_daemon_does_not_start(self, which: str) -> None:
        async with a_stand() as stand:
            path = stand.root / "taken.sock"
            with raw.socket(raw.AF_UNIX) as server:
                server.bind(str(path))
                server.listen()
                house = stand.begin(with_agent(stand, **{which: str(path)}))
                with pytest.raises(EnvironmentUnusable, match=r"taken\.sock cannot be opened: another process answers"):
                    await house.ended()

                assert path.is_socket()

    async def test_without_the_group_the_daemon_does_not_start(self) -> None:
        async with a_stand() as stand:
            house = stand.begin(with_agent(stand, agent_group="nosuch"))

            with pytest.raises(EnvironmentUnusable, match="there is no group 'nosuch'"):
                await house.ended()

    async def test_the_socket_of_a_dead_process_is_replaced(self) -> None:
        async with a_stand() as stand:
            with raw.socket(raw.AF_UNIX) as dead:
                dead.bind(str(stand.root / "control.sock"))
            await stand.serve(with_agent(stand))
            async with client(stand.root / "control.sock") as stub:
                assert (await stub.GetStatus(memif_pb2.GetStatusRequest())).instance == "one"

    async def test_health_is_told_on_both(self, socket: Path) -> None:
        async with channel(socket) as opened:
            stub = health_pb2_grpc.HealthStub(opened)
            for service in ("", "memif.v1.Memif"):
                answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))

                assert answer.status == health_pb2.HealthCheckResponse.SERVING

    async def test_reflection_tells_the_api_on_both(self, socket: Path) -> None:
        async with channel(socket) as opened:
            ask = reflection_pb2_grpc.ServerReflectionStub(opened).ServerReflectionInfo
            requests = [
                reflection_pb2.ServerReflectionRequest(list_services=""),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol="memif.v1.Memif"),
            ]
            services, file = [answer async for answer in ask(iter(requests))]

            names = {each.name for each in services.list_services_response.service}
            assert names >= {"memif.v1.Memif", "grpc.health.v1.Health"}
            assert any(b"memif/v1/memif.proto" in each for each in file.file_descriptor_response.file_descriptor_proto)

    async def test_reflection_answers_to_its_newer_name_too(self, served: Served) -> None:
        async with channel(served.control) as opened:
            ask = opened.stream_stream(
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
                response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
            )
            call = ask(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
            answers = [each async for each in call]

            assert answers[0].list_services_response.service

    async def test_a_large_request_is_refused(self, served: Served) -> None:
        async with client(served.control) as stub:
            request = memif_pb2.GetPodRequest(namespace="telco", name="x" * 100_000)
            await refusal(stub.GetPod(request), grpc.StatusCode.RESOURCE_EXHAUSTED)


class TestGetPod:
    async def test_it_tells_every_container_in_the_order_of_the_grants(self, served: Served, socket: Path) -> None:
        pod = await served.pod()
        async with client(socket) as stub:
            answer = await stub.GetPod(memif_pb2.GetPodRequest(namespace="telco", name="cnf"))

        assert (answer.pod.namespace, answer.pod.name, answer.pod.uid) == ("telco", "cnf", pod.uid)
        assert not answer.stale
        assert [each.container for each in answer.containers] == ["setup", "app"]
        assert [each.id for each in answer.containers] == served.names
        assert [len(each.devices) for each in answer.containers] == [1, 2]
        assert not any(each.HasField("secret") for each in answer.containers)

    async def test_secrets_are_told_to_who_asks_for_them(self, served: Served, socket: Path) -> None:
        await served.pod()
        async with client(socket) as stub:
            request = memif_pb2.GetPodRequest(namespace="telco", name="cnf", with_secrets=True)
            answer = await stub.GetPod(request)

        assert [each.secret for each in answer.containers] == served.secrets

    async def test_no_pod_no_memif_and_cannot_tell_are_three_answers(self, served: Served, socket: Path) -> None:
        await served.pod(PLAIN)
        async with client(socket) as stub:
            nobody = await refusal(
                stub.GetPod(memif_pb2.GetPodRequest(namespace="telco", name="nobody")), grpc.StatusCode.NOT_FOUND
            )
            plain = await refusal(
                stub.GetPod(memif_pb2.GetPodRequest(namespace="telco", name="plain")), grpc.StatusCode.NOT_FOUND
            )
            await served.stand.node.stop_kubelet()
            unknown = await refusal(
                stub.GetPod(memif_pb2.GetPodRequest(namespace="telco", name="cnf")), grpc.StatusCode.UNAVAILABLE
            )

        assert reason(nobody) == ("NO_POD", "memif.v1")
        assert reason(plain) == ("NO_MEMIF", "memif.v1")
        assert reason(unknown) == ("UNKNOWN_NOW", "memif.v1")

    async def test_waiting_ends_when_the_pod_has_it(self, served: Served, socket: Path) -> None:
        async with client(socket) as stub:
            request = memif_pb2.GetPodRequest(namespace="telco", name="cnf")
            request.wait.FromSeconds(60)
            waiting = asyncio.create_task(_awaited(stub.GetPod(request)))
            await asyncio.sleep(0)
            await served.stand.node.start(CNF)
            answer = await waiting

        assert answer.containers

    async def test_waiting_ends_with_the_last_answer_when_the_time_is_over(self, served: Served) -> None:
        async with client(served.control) as stub:
            request = memif_pb2.GetPodRequest(namespace="telco", name="nobody")
            request.wait.FromMilliseconds(20)

            assert reason(await refusal(stub.GetPod(request), grpc.StatusCode.NOT_FOUND)) == ("NO_POD", "memif.v1")

    async def test_it_is_over_before_the_client_s_deadline(self, served: Served) -> None:
        """A deadline that passes gives no reason."""
        async with client(served.control) as stub:
            request = memif_pb2.GetPodRequest(namespace="telco", name="nobody")
            request.wait.FromSeconds(60)
            refused = await refusal(stub.GetPod(request, timeout=0.6), grpc.StatusCode.NOT_FOUND)

        assert reason(refused) == ("NO_POD", "memif.v1")

    @pytest.mark.parametrize("namespace,name", [("", "cnf"), ("telco", ""), ("x" * 254, "cnf"), ("telco", "x" * 254)])
    async def test_what_can_be_no_name_is_an_invalid_argument(self, served: Served, namespace: str, name: str) -> None:
        async with client(served.control) as stub:
            request = memif_pb2.GetPodRequest(namespace=namespace, name=name)
            await refusal(stub.GetPod(request), grpc.StatusCode.INVALID_ARGUMENT)
            release = memif_pb2.ReleasePodRequest(namespace=namespace, name=name)
            await refusal(stub.ReleasePod(release), grpc.StatusCode.INVALID_ARGUMENT)
            uid = memif_pb2.GetPodRequest(namespace="telco", name="cnf", uid="x" * 254)
            await refusal(stub.GetPod(uid), grpc.StatusCode.INVALID_ARGUMENT)

    async def test_an_error_that_nobody_foresaw_is_told_without_its_text(
        self, served: Served, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise RuntimeError("with a secret in it")

        monkeypatch.setattr(type(served.house.container.list_allocations()), "__call__", broken)
        async with client(served.control) as stub:
            refused = await refusal(stub.ListAllocations(memif_pb2.ListAllocationsRequest()), grpc.StatusCode.INTERNAL)

        assert refused.details() == "an internal error of the memif device plugin; its log tells more"
        assert served.house.heard.facts("a call of the control API failed")["call"] == "ListAllocations"


async def test_allocations_are_listed_with_what_holds_them(served: Served, socket: Path) -> None:
    await served.pod()
    await served.house.reconcile()
    async with client(socket) as stub:
        answer = await stub.ListAllocations(memif_pb2.ListAllocationsRequest())
        with_secrets = await stub.ListAllocations(memif_pb2.ListAllocationsRequest(with_secrets=True))

    assert [each.id for each in answer.allocations] == served.names
    for each in answer.allocations:
        assert each.state == memif_pb2.ALLOCATION_STATE_BOUND
        assert each.held_by[0].startswith("container:")
        assert list(each.held_by[1:]) == ["checkpoint", f"grace {GRACE:.0f}s"]
        assert not each.HasField("secret")
    assert [each.secret for each in with_secrets.allocations] == served.secrets


class TestWatch:
    async def test_a_snapshot_then_a_bookmark_then_events_in_order(self, served: Served, socket: Path) -> None:
        await served.pod()
        async with client(socket) as stub:
            call = stub.Watch(memif_pb2.WatchRequest())
            opening = await told(call, SYNCED)
            assert types(opening) == ["BOUND", "BOUND", "SYNCED"]
            assert {each.seq for each in opening} == {served.house.container.state().events.last}
            await served.pod(PodSpec(namespace="telco", name="two", containers=CNF.containers[1:]))
            events = await told(call, BOUND)

        assert types(events) == ["ALLOCATED", "BOUND"]
        assert [each.seq for each in events] == [opening[-1].seq + 1, opening[-1].seq + 2]
        assert {each.instance for each in (*opening, *events)} == {"one"}
        assert events[1].allocation.pod.name == "two"
        assert not any(each.allocation.HasField("secret") for each in (*opening, *events))

    async def test_with_secrets_for_who_asks(self, served: Served, socket: Path) -> None:
        async with client(socket) as stub:
            both = [stub.Watch(memif_pb2.WatchRequest(with_secrets=wanted)) for wanted in (True, False)]
            for call in both:
                await told(call, SYNCED)
            await served.pod()
            first, second = [(await told(call, ALLOCATED))[-1].allocation for call in both]

        assert first.secret == served.secrets[0]
        assert not second.HasField("secret")

    async def test_released_is_told_before_the_directory_goes(self, served: Served) -> None:
        await served.pod()
        (first, _) = served.names
        worker = served.house.container.worker()
        async with client(served.control) as stub:
            call = stub.Watch(memif_pb2.WatchRequest())
            await told(call, SYNCED)
            gate = asyncio.Event()
            run = worker.run

            async def held(what: str, *rest: object, **more: object) -> object:
                await gate.wait()
                return await run(what, *rest, **more)  # type: ignore[arg-type]  # handed on as it came

            worker.run = held  # type: ignore[method-assign,assignment]  # to stop it where it matters
            releasing = asyncio.create_task(
                served.house.container.release()(served.house.container.state().ledger.records[first], reason="a test")
            )
            (event,) = await told(call, RELEASED)
            assert event.allocation.id in served.stand.directories
            gate.set()
            await releasing

        assert first not in served.stand.directories

    async def test_who_comes_back_gets_the_gap(self, served: Served) -> None:
        await served.pod()
        async with client(served.control) as stub:
            (synced, *_) = reversed(await told(stub.Watch(memif_pb2.WatchRequest()), SYNCED))
            await served.pod(PodSpec(namespace="telco", name="two", containers=CNF.containers[1:]))
            request = memif_pb2.WatchRequest(since_seq=synced.seq, instance=synced.instance)
            gap = await told(stub.Watch(request), SYNCED)

        assert types(gap) == ["ALLOCATED", "BOUND", "SYNCED"]

    @pytest.mark.parametrize("instance,seq", [("another", 0), ("", 0), ("one", 10_000)])
    async def test_who_comes_back_from_elsewhere_must_begin_anew(self, served: Served, instance: str, seq: int) -> None:
        await served.pod()
        async with client(served.control) as stub:
            call = stub.Watch(memif_pb2.WatchRequest(since_seq=seq, instance=instance))
            messages = [each async for each in call]

        assert types(messages) == ["RESYNC_NEEDED"]

    async def test_a_watcher_that_is_too_slow_is_told_so_and_costs_nothing(self, served: Served) -> None:
        """What it did not read is kept for nobody: its place in the log is gone when it looks again."""
        state = served.house.container.state()
        state.events = EventLog(kept=50)
        pod = await served.pod()
        async with client(served.control) as stub:
            call = stub.Watch(memif_pb2.WatchRequest(with_secrets=True))
            await told(call, SYNCED)
            (name, *_) = served.names
            for _ in range(3000):  # more than the transport takes in
                state.ledger = state.ledger.standing(name, Standing.RELEASING)
                state.ledger = state.ledger.standing(name, Standing.LIVE)
                await asyncio.sleep(0)
            seen = [each async for each in call]

        assert types(seen)[-1] == "RESYNC_NEEDED"
        numbers = [each.seq for each in seen]
        assert numbers == sorted(numbers)
        assert len(seen) < 3000
        assert pod.running

    async def test_a_daemon_that_stops_ends_the_watch_at_once_with_a_reason(self, served: Served) -> None:
        async with client(served.control) as stub:
            call = stub.Watch(memif_pb2.WatchRequest())
            await told(call, SYNCED)
            stopping = asyncio.create_task(served.house.stop())
            with pytest.raises(aio.AioRpcError) as ended:
                await told(call, SYNCED)
            await stopping

        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE

    async def test_a_watcher_that_leaves_leaves_nothing_behind(self, served: Served) -> None:
        state = served.house.container.state()
        before = len(state._watchers)
        async with client(served.control) as stub:
            calls = [stub.Watch(memif_pb2.WatchRequest()) for _ in range(10)]
            for call in calls:
                await told(call, SYNCED)
            assert len(state._watchers) == before  # one for all watchers together
            for call in calls:
                call.cancel()
        await served.pod()

        assert len(state._watchers) == before


class TestReleasePod:
    @pytest.mark.parametrize("door", ["control", "agent"])
    async def test_a_pod_that_is_gone_is_released_at_once(self, door: str) -> None:
        """The next reconcile would do the same; here none comes in between."""
        async with a_stand() as stand:
            patient = ReconcileSettings.model_validate({"interval": f"{INTERVAL:g}s", "grace": "10h"})
            house = await stand.serve(with_agent(stand).model_copy(update={"reconcile": patient}))
            served = Served(stand, house)
            pod = await served.pod()
            names = served.names
            await stand.node.delete(pod)
            await stand.forgotten(house, pod)
            stand.clock.advance(36_001)
            async with client(getattr(served, door)) as stub:
                answer = await stub.ReleasePod(memif_pb2.ReleasePodRequest(namespace="telco", name="cnf"))

            assert list(answer.released) == names
            assert stand.directories == {}
            facts = house.heard.facts("a pod was released on request")
            assert (facts["socket"], facts["name"], facts["allocations"]) == (door, "cnf", names)

    async def test_one_that_is_in_use_is_refused(self, served: Served, socket: Path) -> None:
        await served.pod()
        served.stand.clock.advance(GRACE + 1)
        async with client(socket) as stub:
            call = stub.ReleasePod(memif_pb2.ReleasePodRequest(namespace="telco", name="cnf"))
            refused = await refusal(call, grpc.StatusCode.FAILED_PRECONDITION)

        assert reason(refused) == ("IN_USE", "memif.v1")
        assert len(served.stand.directories) == 2

    async def test_one_that_nobody_knows_is_not_found(self, socket: Path) -> None:
        async with client(socket) as stub:
            call = stub.ReleasePod(memif_pb2.ReleasePodRequest(namespace="telco", name="nobody"))
            refused = await refusal(call, grpc.StatusCode.NOT_FOUND)

        assert reason(refused) == ("NO_POD", "memif.v1")

    async def test_force_is_root_s(self, served: Served) -> None:
        await served.pod()
        names = served.names
        request = memif_pb2.ReleasePodRequest(namespace="telco", name="cnf", force=True)
        async with client(served.agent) as stub:
            await refusal(stub.ReleasePod(request), grpc.StatusCode.PERMISSION_DENIED)
        assert len(served.stand.directories) == 2
        async with client(served.control) as stub:
            answer = await stub.ReleasePod(request)
            listed = await stub.ListAllocations(memif_pb2.ListAllocationsRequest())

        assert list(answer.released) == names
        assert served.stand.directories == {}
        assert [each.held_by[-1] for each in listed.allocations] == ["forced", "forced"]
        assert served.house.heard.facts("a pod was released by force")["socket"] == "control"

    async def test_a_client_that_gives_up_leaves_nothing_half_done(self, served: Served) -> None:
        await served.pod()
        request = memif_pb2.ReleasePodRequest(namespace="telco", name="cnf", force=True)
        async with client(served.control) as stub:
            call = stub.ReleasePod(request)
            await served.house.until(lambda: not served.names)
            call.cancel()
        await served.house.heard_of("a pod was released by force")

        assert served.stand.directories == {}


class TestReconcile:
    async def test_a_dry_run_changes_nothing(self, served: Served) -> None:
        await served.pod(PLAIN)  # an empty node has to be confirmed by the kubelet, which is asked once an interval
        pod = await served.pod()
        await served.stand.node.delete(pod)
        await served.stand.forgotten(served.house, pod)
        served.stand.clock.advance(GRACE + 1)
        before = served.stand.directories
        async with client(served.control) as stub:
            planned = await stub.Reconcile(memif_pb2.ReconcileRequest(dry_run=True))
            assert served.stand.directories == before
            done = await stub.Reconcile(memif_pb2.ReconcileRequest())

        assert planned.dry_run
        assert [each.effect for each in planned.effects] == [each.effect for each in done.effects]
        assert (done.views.runtime, done.views.checkpoint) == ("known", "known")
        assert served.stand.directories == {}, done
        assert served.house.heard.facts("a reconcile was asked for") == {"socket": "control"}

    async def test_it_is_root_s(self, served: Served) -> None:
        async with client(served.agent) as stub:
            for dry_run in (True, False):
                call = stub.Reconcile(memif_pb2.ReconcileRequest(dry_run=dry_run))
                await refusal(call, grpc.StatusCode.PERMISSION_DENIED)


async def test_status_is_told_on_both(served: Served, socket: Path) -> None:
    await served.pod()
    async with client(socket) as stub:
        answer = await stub.GetStatus(memif_pb2.GetStatusRequest())

    (pool,) = answer.pools
    assert (answer.version, answer.instance, answer.role) == ("0", "one", "active")
    assert (pool.resource, pool.registered, pool.watched, pool.capacity, pool.allocated) == (
        RESOURCE,
        True,
        True,
        8,
        len({device for each in served.house.live for device in each.devices}),
    )
    assert pool.endpoint.startswith("contiv-vpp.")
    assert (answer.allocations.pending, answer.allocations.bound) == (0, 2)
    assert (answer.kubelet.reachable, answer.runtime.reachable, answer.runtime.kind) == (True, True, "memory")
    assert answer.reconcile.result == "ok"


async def _awaited(call: object) -> memif_pb2.GetPodResponse:
    answer: memif_pb2.GetPodResponse = await call  # type: ignore[misc]  # any kind of call
    return answer
