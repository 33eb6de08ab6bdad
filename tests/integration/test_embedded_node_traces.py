"""The embedded node plays the scenes that were recorded on kubelet 1.36, and the plugin sees the same.

The same calls in the same order, with as many ids, the same reuse of ids, and the same containers running afterwards.
Not compared: times, which ids chance chose, how often something was tried again, and whether a plugin sees the answer
to Register or its stream first, which varies in the recording too.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from adapters.memory.node import EmbeddedNode, Pod
from tests.integration.nodes import a_node, app, init, pod, sidecar, slow_readmission
from tests.integration.plugin import ScriptedPlugin

RECORDING: Final = Path(__file__).parent.parent / "captures" / "traces.json"
MEMIF: Final = "contivpp.io/memif"
HANDSHAKE: Final = frozenset({"GetDevicePluginOptions", "Register", "ListAndWatch open"})

Event = tuple[str, ...]
"""A call, its devices as letters in the order of their first appearance in the scene, and an error if there was one."""


def normal(events: Sequence[tuple[str, Sequence[str], str]]) -> list[Event]:
    """Take out of a scene what chance and time put in."""
    letters: dict[str, str] = {}
    found: list[Event] = []
    for what, ids, error in events:
        for name in sorted(ids):
            letters.setdefault(name, chr(ord("a") + len(letters)))
        event = (what, "".join(sorted(letters[name] for name in ids)), *([error] if error else []))
        if error and found and found[-1] == event:
            continue  # tried again
        found.append(event)
    return list(_shaken(found))


def _shaken(events: list[Event]) -> Iterator[Event]:
    """Replace the three parts of a registration, in whatever order, by one."""
    rest = list(events)
    while rest:
        if {event[0] for event in rest[:3]} == HANDSHAKE:
            yield ("registered",)
            del rest[:3]
        else:
            yield rest.pop(0)


def recorded(scene: dict[str, Any]) -> list[Event]:
    """Read a scene of the recording."""
    events = []
    for item in scene["seen"]:
        if "rpc" not in item:
            continue  # what the recorder noticed on disk
        ids = item.get("ids", [])
        if item["rpc"] == "Allocate":
            (ids,) = ids  # one container request a call
        error = item.get("answer", "ok")
        what = f"{item['rpc']} {item['what']}" if "what" in item else item["rpc"]
        events.append((what, ids, "" if error == "ok" else error))
    return normal(events)


class Stage:
    """A node, the plugin on it, and the scenes played so far."""

    def __init__(self, node: EmbeddedNode) -> None:
        self.node = node
        self.plugin = self.new_plugin()
        self.played: dict[str, tuple[list[Event], list[str]]] = {}

    def new_plugin(self) -> ScriptedPlugin:
        return ScriptedPlugin(self.node.plugin_dir, resource=MEMIF, count=8)

    async def register(self) -> None:
        """Serve on a new socket, since a starting kubelet wipes the old one, and register."""
        await self.plugin.stop()
        await self.plugin.serve()
        await self.plugin.register()
        await self.node.wait_registered(MEMIF)

    def end(self, scene: str) -> None:
        """End a scene: keep what the plugin saw since the last one, and which containers run."""
        error = self.plugin.allocate_error or self.plugin.pre_start_error
        text = f"{error[0].name}: {error[1]}" if error else ""
        events = []
        for entry in self.plugin.seen:
            what, ids = (entry, ()) if isinstance(entry, str) else entry
            failed = (what == "Allocate" and self.plugin.allocate_error is not None) or (
                what == "PreStartContainer" and self.plugin.pre_start_error is not None
            )
            events.append((what, ids, text if failed else ""))
        running = [f"{one.name}/{c.name}" for one in self.node.pods for c in one.containers if c.running]
        self.played[scene] = (normal(events), sorted(running))
        self.plugin.seen.clear()


async def _first_life(stage: Stage) -> None:
    """From the first registration to the first pod's end."""
    node = stage.node
    await stage.register()
    stage.end("register")

    cnf = await node.start(
        pod(
            "cnf",
            init("setup", 1, MEMIF),
            sidecar("side", 1, MEMIF),
            app("dataplane", 2, MEMIF),
            app("probe", 1, MEMIF),
            app("plain", 0),
            static=True,
        )
    )
    stage.end("pod")

    await node.restart_container(cnf, "probe")
    stage.end("container restart")

    await node.restart_kubelet()
    await stage.register()
    await node.wait_ready()
    stage.end("kubelet restart")

    await node.force_delete(cnf)
    await node.finish(cnf)
    stage.end("pod removed")


async def _failures(stage: Stage) -> tuple[Pod, Pod, Pod]:
    """A pod that goes well, one that is refused, and one that starts late; returns them in this order."""
    node, plugin = stage.node, stage.plugin
    two = await node.start(pod("two", app("a", 1, MEMIF), static=True))
    stage.end("next pod")

    plugin.allocate_error = (grpc.StatusCode.INTERNAL, "no more")
    refused = await node.start(pod("late", app("a", 1, MEMIF), static=True))
    stage.end("allocate fails")

    plugin.allocate_error = None
    await node.force_delete(refused)
    plugin.pre_start_error = (grpc.StatusCode.INTERNAL, "not now")
    late = await node.admit(pod("late", app("a", 1, MEMIF), static=True, nonce="1"))
    node.begin(late)
    await node.until(lambda: len([name for name, _ in plugin.calls if name == "PreStartContainer"]) >= 4)
    stage.end("prestart fails")

    plugin.pre_start_error = None
    await node.run(late)
    stage.end("prestart recovers")
    return two, refused, late


async def _comebacks(stage: Stage, *pods: Pod) -> list[str]:
    """A reboot and a killed plugin; returns the modes of the directories that the runtime made."""
    node = stage.node
    sources = [one.container("a").mounts["/run/vpp"] for one in pods]
    await node.stop_kubelet()
    await stage.plugin.ended.wait()
    await stage.plugin.stop()
    await node.reboot(meanwhile=lambda: _wipe(sources))
    await stage.register()
    await node.until(lambda: all(one.container("a").running for one in pods))
    stage.end("reboot")
    modes = _modes(sources)

    await stage.plugin.stop()
    await node.until(lambda: not node.registered(MEMIF))
    stage.plugin = stage.new_plugin()
    await stage.register()
    stage.end("plugin killed and started")
    return modes


def _modes(paths: Sequence[str]) -> list[str]:
    return [oct(Path(path).stat().st_mode) for path in paths]


def _wipe(paths: Sequence[str]) -> None:
    for path in paths:
        shutil.rmtree(path)


async def test_the_recorded_scenes_look_the_same() -> None:
    recording = {scene["scene"]: scene for scene in json.loads(RECORDING.read_text())}
    async with a_node(timing=slow_readmission(0.4)) as node:
        stage = Stage(node)
        try:
            await _first_life(stage)
            two, refused, late = await _failures(stage)
            modes = await _comebacks(stage, two, late)
        finally:
            await stage.plugin.stop()

    status = recording.pop("allocate fails: pod status")["seen"]
    assert status == [{"phase": refused.phase, "reason": refused.reason, "message": refused.message}]
    assert recording.pop("reboot: directories that the runtime made")["seen"] == modes
    assert stage.played == {name: (recorded(scene), scene["running"]) for name, scene in recording.items()}


def test_the_comparison_sees_which_ids_are_the_same() -> None:
    """Else the test above could pass on anything with as many calls."""
    same = normal([("Allocate", ["7"], ""), ("Allocate", ["7"], "")])
    other = normal([("Allocate", ["7"], ""), ("Allocate", ["3"], "")])

    assert same != other
    assert normal([("A", ["x", "y"], "")]) == normal([("A", ["q", "p"], "")])
    assert normal([("A", ["x"], "no"), ("A", ["x"], "no")]) == [("A", "a", "no")]
