"""The play: a node's life, scene by scene, as the daemon should bear it.  The scenes build on each other."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from typing import Any, Final

from adapters.control.client import ControlClient, Failed
from adapters.journal import reading
from adapters.kubelet import checkpoint
from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.memory.node import ContainerKind, ContainerSpec, PodSpec
from domain.resource import ResourceName
from tests.e2e.daemon import PATIENCE, RESOURCE, Daemon, begun, soon
from tests.e2e_kubelet.driver import KubeletDriver, Seen, containers, shown_name
from tests.e2e_kubelet.report import Report
from tests.rig.pods import Pods

CAPACITY: Final = 4
"""Devices: as many as the first pod holds, so that whoever comes next must be given some of the same."""

CNF: Final = PodSpec(
    namespace="telco",
    name="cnf",
    static=True,
    containers=(
        ContainerSpec(name="setup", limits={RESOURCE: 1}, kind=ContainerKind.INIT),
        ContainerSpec(name="side", limits={RESOURCE: 1}, kind=ContainerKind.SIDECAR),
        ContainerSpec(name="dataplane", limits={RESOURCE: 2}),
        ContainerSpec(name="monitor", limits={RESOURCE: 1}),
    ),
)
NEXT: Final = PodSpec(
    namespace="telco",
    name="next",
    static=True,
    containers=(ContainerSpec(name="dataplane", limits={RESOURCE: CAPACITY}),),
)

MODE: Final = 0o2770
"""Of every allocation's directory."""

Given = Mapping[str, tuple[str, str, str]]
"""What each container was given, by name: socket, directory, secret."""


class Play:
    """The node, the plugin on it, and what was found of it so far.

    Args:
        driver: the kubelet.
        pods: the runtime, to look at.
        root: a directory for the plugin's own files; its path is short.
        report: where everything is said.
    """

    def __init__(self, *, driver: KubeletDriver, pods: Pods, root: Path, report: Report) -> None:
        self.driver = driver
        self.report = report
        self.host_dir = root / "memif"
        self.state = root / "state" / "state.db"
        self.daemons: list[Daemon] = []
        self._pods = pods
        self._root = root
        self.control = ControlClient(str(root / "control.sock"), deadline=20.0)
        self.pod_resources = KubeletPodResources(path=str(driver.pod_resources))

    @property
    def daemon(self) -> Daemon:
        """The plugin's last process."""
        return self.daemons[-1]

    @property
    def directories(self) -> set[str]:
        """The names in the base directory."""
        return {each.name for each in self.host_dir.iterdir()} if self.host_dir.exists() else set()

    @property
    def allocated(self) -> int:
        """How often the kubelet was granted something, by all processes together."""
        return sum(len(each.said("allocated")) for each in self.daemons)

    def mode_of(self, directory: str) -> int:
        """Return the mode of an allocation's directory."""
        return S_IMODE((self.host_dir / name_of(directory)).stat().st_mode)

    async def begin_plugin(self) -> None:
        """Start a process of the plugin."""
        configuration: dict[str, Any] = {
            "pools": [{"resource": RESOURCE, "capacity": CAPACITY, "host_dir": str(self.host_dir)}],
            "runtime": {"kind": "containerd", "endpoint": f"unix://{self.driver.runtime}"},
            "kubelet": {"plugin_dir": str(self.driver.plugin_dir), "pod_resources": str(self.driver.pod_resources)},
            "state": str(self.state),
            "control": {"socket": str(self._root / "control.sock")},
            "http": {"listen": None},
            "reconcile": {"interval": "1s", "grace": "2s"},
        }
        self.daemons.append(await begun(configuration, self._root))

    async def answers(self) -> bool:
        """Whether the plugin answers on its control socket."""
        try:
            await self.control.status()
        except Failed:
            return False
        return True

    async def seen(self, spec: PodSpec) -> Mapping[str, Seen]:
        """Return a pod's containers as the runtime has them."""
        return await containers(self._pods, spec)

    async def given(self, spec: PodSpec) -> Given:
        """Return what a pod's containers were given, as the runtime has it."""
        return {name: each.given for name, each in (await self.seen(spec)).items()}

    async def told(self, spec: PodSpec) -> Given:
        """Return what the daemon tells an agent that a pod's containers were given."""
        answer = await self.control.pod(spec.namespace, shown_name(spec), None, wait=20, secrets=True)
        return {
            each["name"]: (each["container_socket"], each["host_socket"].rpartition("/")[0], each["secret"])
            for each in answer["containers"]
        }

    def devices(self) -> Mapping[str, frozenset[str]]:
        """Return the device ids that the kubelet's record names, by directory."""
        entries = checkpoint.parse((self.driver.plugin_dir / "kubelet_internal_checkpoint").read_bytes())
        return {name: frozenset(entry.devices) for entry in entries for name in entry.named()}

    async def released(self, *directories: str) -> None:
        """Wait until the plugin has let go of allocations."""
        for each in directories:
            await self.daemon.says("released", allocation=name_of(each))
        await soon(lambda: not {name_of(each) for each in directories} & self.directories)


def name_of(directory: str) -> str:
    """Return the allocation whose directory it is."""
    return directory.rpartition("/")[2]


async def register(play: Play) -> None:
    """The plugin registers."""
    await play.begin_plugin()
    endpoint = await play.daemon.registered()
    play.report.saw(f"the plugin's socket is {endpoint}")

    async def offers_all() -> bool:
        return len(await play.pod_resources.allocatable(ResourceName(RESOURCE))) == CAPACITY

    play.report.check(await _soon(offers_all), f"the kubelet offers {CAPACITY} devices")


async def allocate(play: Play) -> None:
    """A pod with an init container, a sidecar and two containers is admitted."""
    await play.driver.place(CNF)
    given, devices = await play.given(CNF), play.devices()
    play.report.check(set(given) == {each.name for each in CNF.containers}, "each container was given a memif")
    play.report.check(
        len({secret for _, _, secret in given.values()})
        == len({place for _, place, _ in given.values()})
        == len(given),
        "no two of them share a directory or a secret",
    )
    places = {name: name_of(place) for name, (_, place, _) in given.items()}
    play.report.check(set(places.values()) == play.directories, "their directories are there, and no others")
    play.report.check({play.mode_of(place) for _, place, _ in given.values()} == {MODE}, "with mode 2770")
    play.report.check(
        devices[places["setup"]] == devices[places["side"]], "init container and sidecar hold the same device"
    )
    play.report.saw(", ".join(f"{name}: {sorted(devices[place])}" for name, place in places.items()))


async def look_up(play: Play) -> None:
    """An agent asks what the pod was given."""
    play.report.check(await play.told(CNF) == await play.given(CNF), "it is told what the containers have, all of them")


async def restart_container(play: Play) -> None:
    """A container ends, and is started again."""
    before, allocated = await play.seen(CNF), play.allocated
    await play.driver.end(CNF, "dataplane")
    after = await play.seen(CNF)
    play.report.check(after["dataplane"].id != before["dataplane"].id, "it is another container")
    play.report.check(after["dataplane"].given == before["dataplane"].given, "with the same socket and secret")
    play.report.check(play.allocated == allocated, "and Allocate was not called again")


async def restart_kubelet(play: Play) -> None:
    """The kubelet is restarted."""
    before, registered = await play.seen(CNF), len(play.daemon.said("registered with the kubelet"))
    await play.driver.stop()
    await play.driver.start()
    await play.daemon.registered(registered + 1)
    play.report.check(await play.seen(CNF) == before, "every container runs on as it was")
    play.report.check(await play.told(CNF) == await play.given(CNF), "an agent is told the same as before")
    await play.driver.end(CNF, "monitor")
    after = await play.given(CNF)
    play.report.check(after["monitor"] == before["monitor"].given, "a container starts again with socket and secret")


async def kill_plugin(play: Play) -> None:
    """The plugin is killed, and a container ends before it is back."""
    before, allocated, directories = await play.given(CNF), play.allocated, play.directories
    await play.daemon.kill()
    # Before each start the kubelet calls the plugin, so it tries again until there is one.
    ending = asyncio.create_task(play.driver.end(CNF, "side"))
    await play.begin_plugin()
    await play.daemon.registered()
    await ending
    play.report.check(await play.given(CNF) == before, "it is started again with the same socket and secret")
    play.report.check(await play.told(CNF) == before, "the next process tells what the one before it gave")
    play.report.check((play.directories, play.allocated) == (directories, allocated), "nothing came, nothing went")


async def reuse(play: Play) -> None:
    """The manifest is taken away, and another pod is given the same devices at once."""
    old, before = await play.given(CNF), play.devices()
    await play.driver.take_away(CNF)
    await play.driver.place(NEXT)
    (new,) = (await play.given(NEXT)).values()
    lives = sorted(name for name, each in (await play.seen(CNF)).items() if each.running)
    play.report.saw(f"of the pod before, {', '.join(lives) or 'nothing'} still runs")
    play.report.check(
        all(held <= play.devices()[name_of(new[1])] for held in before.values()), "its devices were the other's"
    )
    play.report.check(
        not {new[1], new[2]} & {text for _, place, secret in old.values() for text in (place, secret)},
        "its directory and secret were not",
    )
    play.report.check(
        {name_of(old[name][1]) for name in lives} <= play.directories, "what still runs keeps its directories meanwhile"
    )
    await play.driver.buried(CNF)
    await play.released(*(place for _, place, _ in old.values()))
    play.report.check(play.directories == {name_of(new[1])}, "when it is gone, so are they, and nothing else")


async def power_cycle(play: Play) -> None:
    """The machine is switched off and on, and the base directory was in memory."""
    before, allocated = await play.given(NEXT), play.allocated

    async def meanwhile() -> None:
        await play.daemon.kill()
        await asyncio.to_thread(shutil.rmtree, play.host_dir)
        # It is there before the kubelet is, as it must be: that starts without asking what it does not find.
        await play.begin_plugin()
        await _soon(play.answers)

    await play.driver.power_cycle((NEXT,), meanwhile)
    await play.daemon.registered()
    after = await play.given(NEXT)
    play.report.check(after == before, "the pod runs again with the same socket and secret")
    play.report.check(play.allocated == allocated, "out of the kubelet's record: Allocate was not called again")
    ((_, place, _),) = after.values()
    play.report.check(play.mode_of(place) == MODE, "its directory was made again, mode 2770")


async def leave(play: Play) -> None:
    """The last pod goes."""
    given = await play.given(NEXT)
    await play.driver.take_away(NEXT)
    await play.driver.buried(NEXT)
    await play.released(*(place for _, place, _ in given.values()))
    play.report.check(play.directories == set(), "no directory is left")
    play.report.check(await play.daemon.stop() == 0, "the plugin stops in good order")
    play.report.check(not reading.read(str(play.state)).allocations, "its journal is empty")
    sockets = {each.name for each in play.driver.plugin_dir.glob("*.sock")} - {"kubelet.sock"}
    play.report.check(sockets == set(), "it left no socket behind")


SCENES: Final[Sequence[Callable[[Play], Awaitable[None]]]] = (
    register,
    allocate,
    look_up,
    restart_container,
    restart_kubelet,
    kill_plugin,
    reuse,
    power_cycle,
    leave,
)


async def perform(play: Play) -> None:
    """Play all scenes; afterwards no process of the plugin runs."""
    try:
        for number, scene in enumerate(SCENES, start=1):
            title = (scene.__doc__ or "").rstrip(".")
            with play.report.scene(f"{number}. {title}"):
                await scene(play)
        play.report.end()
    finally:
        for each in play.daemons:
            await each.kill()


async def _soon(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Wait until something is so that nobody tells of; return whether it became so."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while not await holds():  # noqa: ASYNC110 -- nobody tells
                await asyncio.sleep(0.05)
            return True
    return False
