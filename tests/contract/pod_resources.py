"""What every client of the kubelet's pod-resources must do for its port."""

from collections.abc import Mapping
from typing import Final, Protocol

import pytest

from domain.ports.kubelet import KubeletUnavailable, PodResources
from domain.resource import ResourceName

RESOURCE: Final = ResourceName("example.com/memif")
CAPACITY: Final = 4

Held = Mapping[str, frozenset[str]]
"""Devices of :data:`RESOURCE` by container."""


class Stage(Protocol):
    """A kubelet behind its client, with levers that do not go through the port.

    It begins without pods, with :data:`CAPACITY` healthy devices of :data:`RESOURCE`.
    """

    @property
    def pod_resources(self) -> PodResources:
        """The client under test."""
        ...

    @property
    def devices(self) -> frozenset[str]:
        """All devices of the resource."""
        ...

    async def run(self, namespace: str, name: str, containers: Mapping[str, int]) -> Held:
        """Run a pod whose containers want so many devices each, and return which ones each was given."""
        ...

    async def sicken(self, device: str) -> None:
        """Make a device unhealthy."""
        ...

    async def remove(self, namespace: str, name: str) -> None:
        """Delete a pod."""
        ...

    async def refuse_next(self) -> None:
        """Let the kubelet refuse the next call, as it does when it is asked too often."""
        ...

    async def cut(self) -> None:
        """Let the kubelet not answer."""
        ...

    async def restore(self) -> None:
        """Let it answer again."""
        ...


async def _held(pod_resources: PodResources, namespace: str, name: str) -> Held:
    pod = await pod_resources.pod(namespace, name)
    assert pod is not None
    return {container: held.get(RESOURCE, frozenset()) for container, held in pod.containers.items()}


class PodResourcesContract:
    """Subclass it and give a fixture ``stage``."""

    async def test_a_pod_that_is_not_there_is_none_and_no_error(self, stage: Stage) -> None:
        assert await stage.pod_resources.pod("telco", "cnf") is None

    async def test_a_pod_shows_what_each_of_its_containers_holds(self, stage: Stage) -> None:
        given = await stage.run("telco", "cnf", {"dataplane": 2, "probe": 1})

        pod = await stage.pod_resources.pod("telco", "cnf")

        assert pod is not None
        assert (pod.namespace, pod.name) == ("telco", "cnf")
        assert pod.containers == {name: {RESOURCE: ids} for name, ids in given.items()}
        assert [len(given[name]) for name in ("dataplane", "probe")] == [2, 1]

    async def test_a_container_that_holds_nothing_is_shown_with_nothing(self, stage: Stage) -> None:
        await stage.run("telco", "cnf", {"plain": 0})

        pod = await stage.pod_resources.pod("telco", "cnf")

        assert pod is not None
        assert pod.containers == {"plain": {}}

    async def test_pods_of_one_name_in_two_namespaces_are_told_apart(self, stage: Stage) -> None:
        red = await stage.run("red", "cnf", {"a": 1})
        blue = await stage.run("blue", "cnf", {"a": 1})

        assert await _held(stage.pod_resources, "red", "cnf") == red
        assert await _held(stage.pod_resources, "blue", "cnf") == blue
        assert await stage.pod_resources.pod("green", "cnf") is None

    async def test_a_node_without_pods_lists_none(self, stage: Stage) -> None:
        assert await stage.pod_resources.pods() == ()

    async def test_every_pod_is_listed_also_one_without_devices(self, stage: Stage) -> None:
        given = await stage.run("telco", "cnf", {"a": 1})
        await stage.run("telco", "web", {"a": 0})

        pods = {(each.namespace, each.name): each.containers for each in await stage.pod_resources.pods()}

        assert pods == {("telco", "cnf"): {"a": {RESOURCE: given["a"]}}, ("telco", "web"): {"a": {}}}

    async def test_a_removed_pod_is_gone(self, stage: Stage) -> None:
        await stage.run("telco", "cnf", {"a": 1})
        await stage.remove("telco", "cnf")

        assert await stage.pod_resources.pod("telco", "cnf") is None
        assert await stage.pod_resources.pods() == ()

    async def test_every_healthy_device_can_be_allocated_also_one_that_is(self, stage: Stage) -> None:
        await stage.run("telco", "cnf", {"a": 2})

        assert await stage.pod_resources.allocatable(RESOURCE) == stage.devices
        assert len(stage.devices) == CAPACITY

    async def test_an_unhealthy_device_cannot(self, stage: Stage) -> None:
        sick = min(stage.devices)
        await stage.sicken(sick)

        assert await stage.pod_resources.allocatable(RESOURCE) == stage.devices - {sick}

    async def test_a_resource_that_the_kubelet_does_not_know_has_no_devices(self, stage: Stage) -> None:
        assert await stage.pod_resources.allocatable(ResourceName("example.com/other")) == frozenset()

    @pytest.mark.parametrize("call", ["pod", "pods", "allocatable"])
    async def test_a_kubelet_that_does_not_answer_is_an_error_and_never_an_empty_answer(
        self, stage: Stage, call: str
    ) -> None:
        await stage.run("telco", "cnf", {"a": 1})
        await stage.cut()

        with pytest.raises(KubeletUnavailable):
            await _ask(stage.pod_resources, call)

    @pytest.mark.parametrize("call", ["pod", "pods", "allocatable"])
    async def test_a_refusal_is_an_error_and_the_next_call_is_free_of_it(self, stage: Stage, call: str) -> None:
        await stage.run("telco", "cnf", {"a": 1})
        await stage.refuse_next()

        with pytest.raises(KubeletUnavailable):
            await _ask(stage.pod_resources, call)
        assert await _ask(stage.pod_resources, call)

    async def test_a_kubelet_that_answers_again_is_heard_at_once(self, stage: Stage) -> None:
        await stage.cut()
        with pytest.raises(KubeletUnavailable):
            await stage.pod_resources.pods()
        await stage.restore()

        assert await stage.pod_resources.pods() == ()


async def _ask(pod_resources: PodResources, call: str) -> object:
    match call:
        case "pod":
            return await pod_resources.pod("telco", "cnf")
        case "pods":
            return await pod_resources.pods()
        case _:
            return await pod_resources.allocatable(RESOURCE)
