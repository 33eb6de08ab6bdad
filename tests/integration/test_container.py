"""The composition root: everything can be built, and what does not fit is noticed when it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dependency_injector import errors, providers

from adapters.filesystem.sockets import FileSystemSockets
from adapters.journal.journal import SqliteJournal
from adapters.kubelet.checkpoint import KubeletCheckpoint
from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.memory.runtime import MemoryRuntime
from adapters.system.clock import SystemClock
from adapters.system.entropy import SystemEntropy
from adapters.system.worker import ThreadWorker
from app.container import Container, Process, build
from app.logs import StructlogReports
from app.settings import ControlSettings, KubeletSettings, PoolSettings, RuntimeKind, RuntimeSettings, Settings
from domain.ports.runtime import ContainerRuntime
from tests.integration.filesystem import short_place

PROCESS = Process(instance="test", version="0")
NAMES = sorted(Container.providers)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a path that is short enough for sockets."""
    with short_place() as made:
        yield made


@pytest.fixture
def settings(place: Path) -> Settings:
    return Settings(
        pools=(PoolSettings(host_dir=str(place / "memif")),),
        kubelet=KubeletSettings(
            plugin_dir=str(place / "device-plugins"), pod_resources=str(place / "pod-resources.sock")
        ),
        state=str(place / "state" / "state.db"),
        control=ControlSettings(socket=str(place / "control.sock")),
    )


class TestBuilding:
    @pytest.mark.parametrize("name", NAMES)
    async def test_every_part_can_be_built(self, settings: Settings, name: str) -> None:
        container = build(settings, PROCESS)

        assert container.providers[name]() is not None

    def test_building_everything_opens_and_makes_nothing(self, settings: Settings, place: Path) -> None:
        container = build(settings, PROCESS)
        for name in NAMES:
            container.providers[name]()

        assert list(place.iterdir()) == []

    @pytest.mark.parametrize("name", NAMES)
    async def test_every_part_is_there_once(self, settings: Settings, name: str) -> None:
        """Two ledgers, or two workers, would be two truths."""
        container = build(settings, PROCESS)

        assert container.providers[name]() is container.providers[name]()

    async def test_the_daemon_stands_on_the_real_machine(self, settings: Settings) -> None:
        container = build(settings, PROCESS)

        real: dict[str, type] = {
            "clock": SystemClock,
            "entropy": SystemEntropy,
            "reports": StructlogReports,
            "worker": ThreadWorker,
            "journal": SqliteJournal,
            "sockets": FileSystemSockets,
            "checkpoint": KubeletCheckpoint,
            "pod_resources": KubeletPodResources,
        }
        assert {name: type(container.providers[name]()) for name in real} == real

    async def test_parts_share_what_they_must_share(self, settings: Settings) -> None:
        """A fake in the place of one part reaches everybody who uses it."""
        container = build(settings, PROCESS)
        fake = SystemClock()
        container.clock.override(fake)

        assert container.state()._clock is container.allocate()._clock is container.reconcile()._clock is fake
        assert container.allocate()._state is container.look_up()._state is container.reconcile()._state
        assert container.lists() is container.pre_start()._lists is container.plugins()._lists


class TestTheRuntime:
    @pytest.mark.parametrize("kind", RuntimeKind)
    async def test_every_kind_can_be_chosen(self, settings: Settings, kind: RuntimeKind) -> None:
        container = build(settings.model_copy(update={"runtime": RuntimeSettings(kind=kind)}), PROCESS)

        runtime: ContainerRuntime = container.runtime()
        assert callable(runtime.snapshot)
        assert isinstance(runtime, MemoryRuntime) is (kind is RuntimeKind.MEMORY)

    async def test_the_selector_knows_no_kind_that_the_settings_do_not(self) -> None:
        assert set(Container.runtime.providers) == {kind.value for kind in RuntimeKind}

    async def test_a_misspelt_kind_is_no_runtime(self, settings: Settings) -> None:
        container = build(settings, PROCESS)
        container.runtime.set_selector(providers.Object("contaierd"))
        with pytest.raises(errors.Error, match="contaierd"):
            container.runtime()


class TestWhatIsHandedIn:
    async def test_without_settings_nothing_is_built(self) -> None:
        with pytest.raises(errors.Error, match="settings"):
            Container(process=PROCESS).check_dependencies()

    async def test_without_a_process_nothing_is_built(self, settings: Settings) -> None:
        with pytest.raises(errors.Error, match="process"):
            Container(settings=settings).check_dependencies()

    async def test_settings_of_another_type_are_refused(self) -> None:
        with pytest.raises(errors.Error, match="is not an instance of"):
            build({"pools": []}, PROCESS).settings()  # type: ignore[arg-type]  # the mistake in question

    async def test_a_misspelt_name_of_a_dependency_is_refused(self, settings: Settings) -> None:
        with pytest.raises((errors.Error, AttributeError), match=r"setings|settings"):
            Container(setings=settings, process=PROCESS).check_dependencies()

    async def test_a_misspelt_argument_of_a_part_fails_when_it_is_built(self, settings: Settings) -> None:
        container = build(settings, PROCESS)
        container.allocate.add_kwargs(journl=container.journal)
        with pytest.raises(TypeError, match="journl"):
            container.allocate()

    async def test_a_misspelt_key_of_the_settings_fails_when_it_is_used(self, settings: Settings) -> None:
        container = build(settings, PROCESS)
        with pytest.raises(AttributeError, match="reconcil"):
            container.settings.provided.reconcil.interval()
