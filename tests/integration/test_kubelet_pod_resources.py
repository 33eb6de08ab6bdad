"""Whatever a pod-resources service does becomes an answer or an exception of the port."""
# ruff: noqa: N802 -- names are the protocol's

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from adapters._pb.kubelet.podresources.v1 import api_pb2, api_pb2_grpc
from adapters.kubelet.pod_resources import KubeletPodResources
from domain.ports.kubelet import KubeletUnavailable, NoSinglePod, PodResources
from domain.resource import ResourceName
from tests.integration.kubelet import PATIENCE, Context, a_directory, things, until

RESOURCE = ResourceName("example.com/memif")

CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]

NOT_FOUND = "pod cnf in namespace telco not found"
"""What kubelet 1.36 answers, with code UNKNOWN."""

Ask = Callable[[PodResources], Awaitable[object]]


def _pod(kubelet: PodResources) -> Awaitable[object]:
    return kubelet.pod("telco", "cnf")


def _pods(kubelet: PodResources) -> Awaitable[object]:
    return kubelet.pods()


def _allocatable(kubelet: PodResources) -> Awaitable[object]:
    return kubelet.allocatable(RESOURCE)


EVERY_CALL = pytest.mark.parametrize("ask", [_pod, _pods, _allocatable])


class Service(api_pb2_grpc.PodResourcesListerServicer):
    """Answers as it is told: ``refusal`` (code and text) first, then ``hold`` (never answers), then ``listed``."""

    def __init__(self) -> None:
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.hold = False
        self.listed = api_pb2.ListPodResourcesResponse()
        self.entered = asyncio.Event()

    async def Get(self, request: api_pb2.GetPodResourcesRequest, context: Context) -> api_pb2.GetPodResourcesResponse:
        await self._obey(context)
        names = api_pb2.PodResources(name=request.pod_name, namespace=request.pod_namespace)
        return api_pb2.GetPodResourcesResponse(pod_resources=names)

    async def List(
        self, request: api_pb2.ListPodResourcesRequest, context: Context
    ) -> api_pb2.ListPodResourcesResponse:
        del request
        await self._obey(context)
        return self.listed

    async def GetAllocatableResources(
        self, request: api_pb2.AllocatableResourcesRequest, context: Context
    ) -> api_pb2.AllocatableResourcesResponse:
        del request
        await self._obey(context)
        return api_pb2.AllocatableResourcesResponse()

    async def _obey(self, context: Context) -> None:
        self.entered.set()
        if self.refusal is not None:
            await context.abort(*self.refusal)
        if self.hold:
            await asyncio.Event().wait()


@asynccontextmanager
async def listening(service: Service, path: Path) -> AsyncIterator[None]:
    server = aio.server(options=[("grpc.max_send_message_length", -1)])
    api_pb2_grpc.add_PodResourcesListerServicer_to_server(service, server)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


@pytest.fixture
def path() -> Iterator[Path]:
    with a_directory() as directory:
        yield directory / "kubelet.sock"


@pytest.fixture
async def service(path: Path) -> AsyncIterator[Service]:
    made = Service()
    async with listening(made, path):
        yield made


@pytest.fixture
def kubelet(path: Path) -> KubeletPodResources:
    return KubeletPodResources(path=str(path))


@pytest.fixture
def hasty(path: Path) -> KubeletPodResources:
    """One that gives up soon."""
    return KubeletPodResources(path=str(path), deadline=0.1)


async def soon(asking: Awaitable[object]) -> object:
    """Return what comes of a question, which must not depend on anybody's patience but its own."""
    async with asyncio.timeout(PATIENCE):
        return await asking


class TestEveryStatus:
    @EVERY_CALL
    @pytest.mark.parametrize("code", CODES, ids=lambda each: each.name)
    async def test_every_status_is_an_exception_of_the_port(
        self, service: Service, kubelet: KubeletPodResources, ask: Ask, code: grpc.StatusCode
    ) -> None:
        """With the kubelet's words in it, and the code where the code says anything."""
        service.refusal = (code, "the kubelet's own words")

        with pytest.raises(KubeletUnavailable, match="the kubelet's own words") as caught:
            await ask(kubelet)

        assert isinstance(caught.value.__cause__, aio.AioRpcError | KubeletUnavailable)

    @pytest.mark.parametrize("code", CODES, ids=lambda each: each.name)
    async def test_only_a_missing_or_disabled_method_leaves_nothing_but_listing(
        self, service: Service, kubelet: KubeletPodResources, code: grpc.StatusCode
    ) -> None:
        """The kubelet has no code for a method that is switched off, only UNKNOWN and a text."""
        service.refusal = (code, "Pod Resources API Get method disabled")

        with pytest.raises(KubeletUnavailable) as caught:
            await kubelet.pod("telco", "cnf")

        only_listing = code in {grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED}
        assert isinstance(caught.value, NoSinglePod) is only_listing

    async def test_a_kubelet_that_does_not_know_the_pod_answers_none(
        self, service: Service, kubelet: KubeletPodResources
    ) -> None:
        service.refusal = (grpc.StatusCode.UNKNOWN, NOT_FOUND)

        assert await kubelet.pod("telco", "cnf") is None

    @pytest.mark.parametrize("ask", [_pods, _allocatable])
    async def test_the_same_words_mean_nothing_in_answer_to_another_question(
        self, service: Service, kubelet: KubeletPodResources, ask: Ask
    ) -> None:
        service.refusal = (grpc.StatusCode.UNKNOWN, NOT_FOUND)

        with pytest.raises(KubeletUnavailable):
            await ask(kubelet)

    @pytest.mark.parametrize("code", [each for each in CODES if each is not grpc.StatusCode.UNKNOWN])
    async def test_the_same_words_with_another_code_are_no_answer(
        self, service: Service, kubelet: KubeletPodResources, code: grpc.StatusCode
    ) -> None:
        service.refusal = (code, NOT_FOUND)

        with pytest.raises(KubeletUnavailable):
            await kubelet.pod("telco", "cnf")

    @EVERY_CALL
    async def test_a_refusal_without_words_is_told_by_its_code(
        self, service: Service, kubelet: KubeletPodResources, ask: Ask
    ) -> None:
        service.refusal = (grpc.StatusCode.RESOURCE_EXHAUSTED, "")

        with pytest.raises(KubeletUnavailable, match="RESOURCE_EXHAUSTED: no text"):
            await ask(kubelet)


class TestSilence:
    @EVERY_CALL
    async def test_a_service_that_never_answers_is_given_up(
        self, service: Service, hasty: KubeletPodResources, ask: Ask
    ) -> None:
        service.hold = True

        with pytest.raises(KubeletUnavailable, match="DEADLINE_EXCEEDED"):
            await soon(ask(hasty))

    @EVERY_CALL
    async def test_a_socket_that_accepts_and_says_nothing_is_given_up(
        self, path: Path, hasty: KubeletPodResources, ask: Ask
    ) -> None:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(path))
            silent.listen()

            with pytest.raises(KubeletUnavailable):
                await soon(ask(hasty))

    @EVERY_CALL
    async def test_a_socket_that_speaks_another_language_is_given_up(
        self, path: Path, hasty: KubeletPodResources, ask: Ask
    ) -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 localhost ESMTP\r\n")
            await reader.read()
            writer.close()

        async with await asyncio.start_unix_server(speak, path):
            with pytest.raises(KubeletUnavailable):
                await soon(ask(hasty))

    @EVERY_CALL
    async def test_a_missing_socket_is_said_with_its_path(
        self, path: Path, kubelet: KubeletPodResources, ask: Ask
    ) -> None:
        with pytest.raises(KubeletUnavailable, match=f"at {path} does not answer: UNAVAILABLE"):
            await ask(kubelet)

    async def test_a_stale_socket_is_given_up_at_once(self, path: Path, kubelet: KubeletPodResources) -> None:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))

        with pytest.raises(KubeletUnavailable, match="UNAVAILABLE"):
            await soon(kubelet.pods())

    async def test_who_gives_up_asking_is_not_told_that_the_kubelet_is_unavailable(
        self, service: Service, kubelet: KubeletPodResources
    ) -> None:
        service.hold = True
        asking = asyncio.create_task(kubelet.pods())
        async with asyncio.timeout(10):
            await service.entered.wait()
        asking.cancel()

        with pytest.raises(asyncio.CancelledError):
            await asking


class TestAnswers:
    @EVERY_CALL
    async def test_an_answer_that_is_no_message_of_the_service_is_an_error(
        self, path: Path, kubelet: KubeletPodResources, ask: Ask
    ) -> None:
        async def answer(request: bytes, context: Context) -> bytes:
            del request, context
            return b"\xff\xff\xff"

        names = ("Get", "List", "GetAllocatableResources")
        handlers: dict[str, Any] = {name: grpc.unary_unary_rpc_method_handler(answer) for name in names}
        server = aio.server()
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1.PodResourcesLister", handlers)])
        server.add_insecure_port(f"unix:{path}")
        await server.start()

        with pytest.raises(KubeletUnavailable, match=str(path)):
            await ask(kubelet)
        await server.stop(None)

    async def test_a_node_with_very_many_devices_is_listed(
        self, service: Service, kubelet: KubeletPodResources
    ) -> None:
        """gRPC's default limit of 4 MiB is too small for it; the kubelet itself allows 16."""
        ids = [f"{RESOURCE}/{index:0100}" for index in range(90_000)]
        devices = [api_pb2.ContainerDevices(resource_name=RESOURCE, device_ids=ids)]
        containers = [api_pb2.ContainerResources(name="a", devices=devices)]
        service.listed.pod_resources.add(name="cnf", namespace="telco", containers=containers)
        assert service.listed.ByteSize() > 10 * 1024 * 1024

        (pod,) = await kubelet.pods()

        assert len(pod.containers["a"][RESOURCE]) == 90_000

    async def test_an_answer_beyond_any_limit_is_an_error(self, service: Service, kubelet: KubeletPodResources) -> None:
        service.listed.pod_resources.add(name="x" * 17 * 1024 * 1024)

        with pytest.raises(KubeletUnavailable, match="RESOURCE_EXHAUSTED"):
            await kubelet.pods()

    async def test_the_old_version_of_the_service_is_not_asked(self, path: Path, kubelet: KubeletPodResources) -> None:
        """It leaves out sidecars and lists pods that ended; on a kubelet without version 1 there is a clear message."""
        server = aio.server()
        server.add_insecure_port(f"unix:{path}")
        await server.start()

        with pytest.raises(KubeletUnavailable, match="the kubelet has no such pod-resources method"):
            await kubelet.pods()
        await server.stop(None)


class TestRestarts:
    async def test_a_service_that_was_replaced_is_heard_at_once(self, path: Path, kubelet: KubeletPodResources) -> None:
        """A channel that outlives the service comes back only after a back-off of seconds to minutes."""
        for _ in range(5):
            with pytest.raises(KubeletUnavailable):
                await kubelet.pods()
            async with listening(Service(), path):
                assert await kubelet.pods() == ()

    async def test_asking_leaves_nothing_whatever_comes_of_it(self, path: Path, kubelet: KubeletPodResources) -> None:
        async def ask_twice() -> None:
            async with listening(Service(), path):
                await kubelet.pods()
            with pytest.raises(KubeletUnavailable):
                await kubelet.pods()

        await ask_twice()
        before = things()
        for _ in range(20):
            await ask_twice()

        await until(lambda: things().within(before))
