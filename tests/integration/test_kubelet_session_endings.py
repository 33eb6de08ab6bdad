"""What ends a session while its kubelet lives, what does not, and what follows."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.kubelet.pod_resources import KubeletPodResources
from adapters.memory.kubelet import MemoryPodResources
from adapters.memory.node import EmbeddedNode, Phase
from domain.identity import DeviceId
from domain.ports.kubelet import KubeletUnavailable
from domain.resource import ResourceName
from tests.integration.kubelet import NEVER, QUICK, RESOURCE, ScriptedKubelet, a_directory, a_side
from tests.integration.nodes import a_node, app, pod
from tests.integration.plugin import ScriptedPlugin

ASKING = replace(QUICK, first_check=0.01, check_interval=0.01)
"""Times of a session that asks the kubelet often whether it knows our devices."""


@pytest.fixture
def directory() -> Iterator[Path]:
    with a_directory() as made:
        yield made


@pytest.fixture
async def kubelet(directory: Path) -> AsyncIterator[ScriptedKubelet]:
    async with ScriptedKubelet(directory) as made:
        yield made


@pytest.fixture
async def node() -> AsyncIterator[EmbeddedNode]:
    async with a_node() as made:
        made.rate_limited = False
        yield made


class TestOurSocket:
    async def test_removed_it_is_made_anew_under_another_name_and_registered_exactly_once_more(
        self, node: EmbeddedNode
    ) -> None:
        """Another plugin used a watcher that had fired already, and restarted every 100 ms from then on."""
        async with a_side(node.plugin_dir) as side:
            await side.watched()
            before = side.endpoint
            (node.plugin_dir / before).unlink()
            await side.watched(2)
            await node.wait_registered(RESOURCE)
            await side.hinted()

            assert side.endpoint != before
            assert side.sockets() == [side.endpoint]
            assert side.status().registrations == 2
            assert [call.rpc for call in node.calls].count("Register") == 2
            assert node.streams(RESOURCE) == 1

    async def test_replaced_by_something_else_it_is_made_anew_and_the_other_is_left_alone(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        async with a_side(directory) as side:
            await side.watched()
            other = directory / side.endpoint
            other.unlink()
            (directory / "file").write_text("somebody's", encoding="utf-8")
            (directory / "file").rename(other)
            await side.watched(2)

            assert other.read_text(encoding="utf-8") == "somebody's"
            assert len(kubelet.requests) == 2

    async def test_removed_while_it_is_being_registered_it_is_made_anew_at_once(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        """A starting kubelet wipes it, and to dial a wiped one would block the call for ten seconds."""
        kubelet.hold.clear()
        async with a_side(directory, times=replace(QUICK, register=NEVER)) as side:
            await side.until(lambda: bool(kubelet.requests))
            (directory / kubelet.requests[0].endpoint).unlink()
            await side.until(lambda: len(kubelet.requests) == 2)
            kubelet.hold.set()
            await side.watched()

            assert side.endpoint == kubelet.requests[1].endpoint

    async def test_removed_while_a_kubelet_is_waited_for_it_is_made_anew(self, directory: Path) -> None:
        async with a_side(directory) as side:
            await side.until(lambda: len(side.sockets()) == 1)
            (before,) = side.sockets()
            (directory / before).unlink()
            await side.until(lambda: len(side.sockets()) == 1)

            assert side.sockets() != [before]


class TestTheStream:
    async def test_closed_by_the_kubelet_it_is_opened_anew_by_registering_again(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        """The kubelet never comes back by itself."""
        async with a_side(directory) as side:
            await side.watched()
            await kubelet.watchers[0].leave()
            await side.watched(2)

            assert kubelet.requests[0].endpoint != kubelet.requests[1].endpoint
            assert side.plugins.kubelet_restarts == 0

    async def test_closed_again_and_again_it_is_opened_again_and_again(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        async with a_side(directory) as side:
            for times in range(1, 11):
                await side.watched(times)
                await kubelet.watchers[-1].leave()
            await side.watched(11)

            assert side.told.warnings == []

    async def test_closed_often_within_a_short_time_it_is_let_rest(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        """A starting kubelet closes the stream and then wipes the next socket: so much is ordinary, and no more."""
        times = replace(QUICK, settled=NEVER, shortest_pause=NEVER, longest_pause=NEVER)
        async with a_side(directory, times=times) as side:
            for count in range(1, 4):
                await side.watched(count)
                await kubelet.watchers[-1].leave()
            await side.until(lambda: side.status().reason == "the kubelet closed its stream of devices")
            await side.hinted()

            assert len(kubelet.requests) == 3
            assert side.sockets() == []

    async def test_closed_after_a_session_that_had_settled_it_is_opened_anew_without_a_pause(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        times = replace(QUICK, settled=0.0, shortest_pause=NEVER, longest_pause=NEVER)
        async with a_side(directory, times=times) as side:
            for count in range(1, 11):
                await side.watched(count)
                await kubelet.watchers[-1].leave()
            await side.watched(11)

    async def test_never_opened_it_is_a_fault_that_is_told_and_registered_again(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        kubelet.watches = False
        async with a_side(directory, times=replace(QUICK, stream=0.05)) as side:
            await side.until(lambda: len(kubelet.requests) >= 4)
            assert not side.status().watched
            assert side.told.reasons() == ["the kubelet took the registration and does not watch the devices"]
            kubelet.watches = True
            await side.watched()

            assert side.status().reason is None

    async def test_torn_down_because_an_older_plugins_stream_ended_it_is_opened_anew(self, node: EmbeddedNode) -> None:
        """The kubelet looks the connection up by the resource's name, and finds ours."""
        old = ScriptedPlugin(node.plugin_dir, resource=RESOURCE, endpoint="old.sock")
        async with old:
            await node.wait_registered(RESOURCE)
            async with a_side(node.plugin_dir) as side:
                await side.watched()
                await node.until(lambda: node.streams(RESOURCE) == 2)
                await old.stop()
                await side.watched(2)
                await node.wait_registered(RESOURCE)

                assert node.streams(RESOURCE) == 1
                assert side.plugins.kubelet_restarts == 0
                one = await node.admit(pod("cnf", app(resource=RESOURCE)))
                assert one.phase is not Phase.FAILED
                assert side.core.calls

    async def test_while_it_is_not_open_the_pool_is_not_called_watched(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        async with a_side(directory) as side:
            await side.watched()
            kubelet.hold.clear()
            await kubelet.watchers[0].leave()
            await side.until(lambda: len(kubelet.requests) == 2)

            assert not side.status().watched
            assert not side.status().registered
            kubelet.hold.set()
            await side.watched(2)


class TestTheKubeletsSocket:
    async def test_missing_while_the_stream_lives_it_ends_nothing(self, node: EmbeddedNode) -> None:
        """The kubelet lives as long as its stream does, and would not make the socket again before its next start."""
        async with a_side(node.plugin_dir) as side:
            await side.watched()
            before = side.status()
            node.kubelet_socket.unlink()
            await side.hinted()

            assert side.status() == before
            one = await node.admit(pod("cnf", app(resource=RESOURCE)))
            assert one.phase is not Phase.FAILED
            await node.restart_kubelet()
            await side.watched(2)

    async def test_replaced_while_a_registration_hangs_it_is_dialled_anew(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        """The old kubelet may be dead without its connection being so."""
        kubelet.hold.clear()
        async with a_side(directory, times=replace(QUICK, register=NEVER)) as side:
            await side.until(lambda: len(kubelet.requests) == 1)
            new = ScriptedKubelet(directory)
            await new.start()
            await side.watched()

            assert len(new.requests) == 1
            kubelet.hold.set()
            await new.stop()
            await new.hang_up()


class Answers(MemoryPodResources):
    """Pod-resources that give one answer after the other, and then the last one for ever."""

    def __init__(self, *answers: frozenset[DeviceId] | KubeletUnavailable) -> None:
        super().__init__()
        self._answers = list(answers)

    async def allocatable(self, resource: ResourceName) -> frozenset[DeviceId]:
        await super().allocatable(resource)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, KubeletUnavailable):
            raise answer
        return answer


OURS = frozenset({DeviceId(f"{RESOURCE}/1")})
THEIRS = frozenset({DeviceId("somebody/1")})
NOBODYS = frozenset[DeviceId]()
SILENCE = KubeletUnavailable("rejected by rate limit")

ANOTHER = "the kubelet does not list the plugin's devices; another plugin may serve them"


class TestWhoseDevicesTheKubeletHas:
    """Two plugins may serve one name; the kubelet listens to both and asks the one that registered last."""

    @pytest.mark.parametrize("answer", [THEIRS, NOBODYS], ids=["another's", "nobody's"])
    async def test_if_they_are_not_ours_three_times_the_session_ends_as_a_fault(
        self, directory: Path, kubelet: ScriptedKubelet, answer: frozenset[DeviceId]
    ) -> None:
        pod_resources = Answers(answer)
        times = replace(ASKING, shortest_pause=NEVER, longest_pause=NEVER)
        async with a_side(directory, times=times, pod_resources=pod_resources) as side:
            await side.until(lambda: bool(side.told.warnings))

            assert side.told.reasons() == [ANOTHER]
            assert pod_resources.asked == ["GetAllocatableResources"] * 3
            assert len(kubelet.requests) == 1
            assert side.status().reason == ANOTHER
            assert not side.status().registered

    async def test_then_they_are_registered_again(self, directory: Path, kubelet: ScriptedKubelet) -> None:
        pod_resources = Answers(THEIRS, THEIRS, THEIRS, OURS)
        async with a_side(directory, times=ASKING, pod_resources=pod_resources) as side:
            await side.watched(2)
            await side.until(lambda: len(pod_resources.asked) >= 8)

            assert len(kubelet.requests) == 2
            assert side.status().reason is None

    @pytest.mark.parametrize(
        "answers",
        [
            (THEIRS, THEIRS, OURS, THEIRS, THEIRS, OURS),
            (SILENCE,),
            (THEIRS, THEIRS, SILENCE, SILENCE, SILENCE, OURS),
            (OURS | THEIRS,),
        ],
        ids=["ours in between", "no answer", "no answer in between", "both"],
    )
    async def test_less_than_that_ends_nothing(
        self, directory: Path, kubelet: ScriptedKubelet, answers: tuple[frozenset[DeviceId], ...]
    ) -> None:
        """The kubelet applies a list in its own time, and not to be answered says nothing."""
        pod_resources = Answers(*answers)
        async with a_side(directory, times=ASKING, pod_resources=pod_resources) as side:
            await side.watched()
            before = side.status()
            await side.until(lambda: len(pod_resources.asked) >= 10)

            assert side.status() == before
            assert len(kubelet.requests) == 1

    async def test_if_all_of_ours_are_unhealthy_nobody_misses_them(
        self, directory: Path, kubelet: ScriptedKubelet
    ) -> None:
        pod_resources = Answers(NOBODYS)
        async with a_side(directory, times=ASKING, pod_resources=pod_resources) as side:
            side.core.sick.update(side.core.ids)
            await side.until(lambda: len(pod_resources.asked) >= 10)

            assert side.status().watched
            assert len(kubelet.requests) == 1

    async def test_a_plugin_that_registers_after_us_is_noticed_and_answered(self, node: EmbeddedNode) -> None:
        """With the real questions: its list replaces ours, although both streams are open."""
        pod_resources = KubeletPodResources(path=str(node.pod_resources_socket))
        async with a_side(node.plugin_dir, times=ASKING, pod_resources=pod_resources) as side:
            await side.watched()
            other = ScriptedPlugin(node.plugin_dir, resource=RESOURCE, endpoint="other.sock")
            other.health = {"somebody/1": "Healthy"}
            async with other:
                await side.watched(2)
                await node.until(lambda: node.kubelet.devices.healthy[RESOURCE] == set(side.core.ids))

            assert side.told.reasons() == [ANOTHER]
