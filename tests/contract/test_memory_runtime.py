"""The memory runtime keeps its port's promises."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from adapters.memory.clock import ManualClock
from adapters.memory.runtime import MemoryRuntime
from domain.evidence import ObjectState
from domain.ports.runtime import RuntimeUnavailable
from tests.contract.partly_readable import PartlyReadableContract
from tests.contract.runtime_stage import PREFIX


@dataclass
class MemoryStage:
    clock: ManualClock = field(default_factory=ManualClock)
    kind: str = "memory"
    host_dir: str = "/var/run/contiv/memif"

    def __post_init__(self) -> None:
        self.runtime = MemoryRuntime(self.clock, prefixes=(PREFIX,))

    async def sandbox(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str]) -> str:
        return self.runtime.add_sandbox(uid=uid, namespace=namespace, name=name, annotations=annotations)

    async def container(
        self, sandbox: str, name: str, *, mounts: Mapping[str, str], annotations: Mapping[str, str]
    ) -> str:
        return self.runtime.add_container(sandbox=sandbox, container=name, mounts=mounts, annotations=annotations)

    async def start(self, container: str) -> None:
        self.runtime.set_state(container, ObjectState.RUNNING)

    async def end(self, container: str) -> None:
        self.runtime.set_state(container, ObjectState.EXITED)

    async def remove(self, container: str) -> None:
        self.runtime.remove(container)

    async def cut(self) -> None:
        self.runtime.cut()

    async def hang(self) -> None:
        self.runtime.cut("the runtime did not answer within its deadline")

    async def restore(self) -> None:
        self.runtime.restore()


class TestMemoryRuntime(PartlyReadableContract):
    @pytest.fixture
    def stage(self) -> MemoryStage:
        return MemoryStage()


class TestLevers:
    async def test_without_prefixes_everything_but_the_kubelets_own_annotations_is_claimed(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        sandbox = runtime.add_sandbox(uid="u", namespace="n", name="p")
        annotations = {"io.kubernetes.container.hash": "x", "a.example/b": "y"}
        container = runtime.add_container(sandbox=sandbox, container="c", annotations=annotations)

        assert runtime.object(container).claimed == {"a.example/b": "y"}

    async def test_a_failure_is_had_once(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        runtime.fail_next(RuntimeUnavailable("too many containers"))

        with pytest.raises(RuntimeUnavailable, match="too many containers"):
            await runtime.snapshot()
        view = await runtime.snapshot()

        assert view.objects == ()
        assert [asked.answered for asked in runtime.asked] == [False, True]

    async def test_removing_a_sandbox_removes_its_containers(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        sandbox = runtime.add_sandbox(uid="u", namespace="n", name="p")
        runtime.add_container(sandbox=sandbox, container="c")

        runtime.remove(sandbox)

        assert runtime.objects == ()

    async def test_a_halt_ends_everything_and_removes_nothing(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        sandbox = runtime.add_sandbox(uid="u", namespace="n", name="p")
        runtime.add_container(sandbox=sandbox, container="c", state=ObjectState.RUNNING)

        runtime.halt()

        assert [thing.state for thing in runtime.objects] == [ObjectState.EXITED] * 2

    async def test_feeds_can_break_while_everything_else_is_answered(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        feed = runtime.changes()
        await anext(feed)
        runtime.break_feeds("too slow")

        with pytest.raises(RuntimeUnavailable, match="too slow"):
            await anext(feed)
        assert (await runtime.snapshot()).objects == ()

    async def test_several_changes_can_be_one_hint(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        feed = runtime.changes()
        await anext(feed)
        sandbox = runtime.add_sandbox(uid="u", namespace="n", name="p")
        runtime.remove(sandbox)
        await anext(feed)
        runtime.break_feeds("the end")

        with pytest.raises(RuntimeUnavailable, match="the end"):
            await anext(feed)

    async def test_a_closed_runtime_breaks_its_feeds(self) -> None:
        runtime = MemoryRuntime(ManualClock())
        feed = runtime.changes()
        await anext(feed)

        await runtime.aclose()

        with pytest.raises(RuntimeUnavailable, match="closed"):
            await anext(feed)
