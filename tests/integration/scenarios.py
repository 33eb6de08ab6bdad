"""What the daemon does that can be cut short, and what has happened until then."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from adapters.memory.node import PodSpec
from domain.lookup import Question
from tests.integration.crash import Killed
from tests.integration.nodes import app, init, pod, sidecar
from tests.integration.socketless import GRACE, INTERVAL, RESOURCE, Stand, settings

ORPHAN = "zzzzzzzzzzzzzzzzzzzz"
"""A well-formed id that is never drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One thing that the daemon does.

    Attributes:
        before: what has happened until then.
        step: what is cut short.
        steps: how many steps it has at least; fewer would mean that nothing is tested.
        pods_restart: whether pods are restarted after the crash, which brings back what an operator forced out.
        pool: keys of the pool that differ from the default.
    """

    before: Callable[[Stand], Awaitable[None]]
    step: Callable[[Stand], Awaitable[object]]
    steps: int
    pods_restart: bool
    pool: dict[str, Any]


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    before: Callable[[Stand], Awaitable[None]], *, steps: int, pods_restart: bool = False, **pool: Any
) -> Callable[[Callable[[Stand], Awaitable[object]]], Callable[[Stand], Awaitable[object]]]:
    """Register a scenario under its function's name; the keys are those of :class:`Scenario`."""

    def registered(step: Callable[[Stand], Awaitable[object]]) -> Callable[[Stand], Awaitable[object]]:
        SCENARIOS[step.__name__] = Scenario(before=before, step=step, steps=steps, pods_restart=pods_restart, pool=pool)
        return step

    return registered


def cnf(name: str = "cnf") -> PodSpec:
    """Return a pod in which an init container and a sidecar share a device."""
    return pod(name, init("setup", 1, RESOURCE), sidecar("side", 1, RESOURCE), app("main", 2, RESOURCE))


async def reconcile(stand: Stand) -> None:
    """Run the resync rules once."""
    assert stand.house is not None
    await stand.house.reconcile()


# -- what has happened before ----------------------------------------------------------------------------------


async def one_that_runs(stand: Stand) -> None:
    """A pod runs."""
    await stand.run()
    await stand.node.attempt(await stand.node.admit(cnf()))


async def one_that_runs_and_is_known(stand: Stand) -> None:
    """A pod runs, and a reconcile has seen it."""
    await one_that_runs(stand)
    await reconcile(stand)


async def one_that_waits(stand: Stand) -> None:
    """A pod is admitted and its image is being pulled."""
    await stand.run()
    await stand.node.admit(cnf())


async def nothing_and_no_daemon(stand: Stand) -> None:
    """Nobody was ever here."""
    assert not stand.state_dir.exists()


async def one_that_is_deleted(stand: Stand) -> None:
    """A pod was deleted beside one that runs, and the kubelet's file still names it."""
    await one_that_runs_and_is_known(stand)
    gone = await stand.node.admit(pod("gone", app("a", 2, RESOURCE), app("b", 1, RESOURCE)))
    await stand.node.attempt(gone)
    await reconcile(stand)
    (stand.host_dir / stand.directories().popitem()[0] / "cli.sock").touch()
    await stand.node.delete(gone)
    assert gone.uid in stand.stored().values()
    stand.clock.advance(INTERVAL + GRACE)


async def one_that_is_gone(stand: Stand) -> None:
    """A pod was deleted beside one that runs, the kubelet has forgotten it, and the grace is over."""
    await one_that_is_deleted(stand)
    await reconcile(stand)  # makes the kubelet forget
    assert len(set(stand.stored().values())) == 1
    stand.clock.advance(INTERVAL + GRACE)


async def the_journal_is_lost(stand: Stand) -> None:
    """A pod runs, and the state directory was deleted under a daemon that is down."""
    await one_that_runs_and_is_known(stand)
    stand.kill()
    for each in stand.state_dir.iterdir():
        each.unlink()


async def the_journal_is_damaged(stand: Stand) -> None:
    """A pod runs, and the journal's file is overwritten in the middle."""
    await one_that_runs_and_is_known(stand)
    stand.kill()
    (stand.state_dir / "state.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)


async def the_base_directory_is_empty(stand: Stand) -> None:
    """A pod runs, and ``/var/run`` was emptied under a daemon that is down."""
    await one_that_runs_and_is_known(stand)
    stand.kill()
    stand.empty()


async def the_pool_is_smaller(stand: Stand) -> None:
    """A pod runs, and the daemon is down while an operator takes most of the devices away."""
    await one_that_runs_and_is_known(stand)
    stand.kill()
    stand.settings = settings(stand.root, capacity=1)


async def a_release_was_cut_short(stand: Stand) -> None:
    """The daemon ended between the record that says "releasing" and the removal."""
    await one_that_is_gone(stand)
    stand.power.end_before("SocketDirectories.remove")
    with pytest.raises(Killed):
        await reconcile(stand)
    stand.bury()


async def one_was_forced_out(stand: Stand) -> None:
    """An operator removed the directories of a pod whose containers run."""
    await one_that_runs_and_is_known(stand)
    await forced(stand)


async def forced(stand: Stand) -> None:
    """Remove a pod's directories although it runs."""
    assert stand.house is not None
    await stand.house.container.release_pod().force(Question(namespace="telco", name="cnf"), reason="a test")


async def restarted(stand: Stand) -> None:
    """Let the pod's containers end, and the kubelet start them again."""
    one = stand.node.pods[0]
    for each in one.containers:
        stand.node.exit_container(one, each.name)
    await stand.node.attempt(one)


# -- what is cut short -----------------------------------------------------------------------------------------


@scenario(nothing_and_no_daemon, steps=8)
async def first_start(stand: Stand) -> None:
    await stand.run()


@scenario(one_that_runs, steps=15)
async def grant(stand: Stand) -> None:
    await stand.node.admit(cnf("two"))


@scenario(one_that_runs, steps=30, secret_delivery="both", pod_file=True)
async def grant_with_files(stand: Stand) -> None:
    await stand.node.admit(cnf("two"))


@scenario(one_that_runs, steps=7)
async def grant_of_several_requests(stand: Stand) -> None:
    """The protocol allows it, all or none; nobody stores the answers here, as if the kubelet had died."""
    assert stand.house is not None
    await stand.house.plugins[0].allocate([[f"{RESOURCE}/9"], [f"{RESOURCE}/10", f"{RESOURCE}/11"]])


@scenario(one_that_waits, steps=3)
async def start_of_containers_whose_directories_are_gone(stand: Stand) -> None:
    stand.empty()
    await stand.node.attempt(stand.node.pods[0])


@scenario(one_that_runs_and_is_known, steps=3)
async def repair(stand: Stand) -> None:
    stand.empty()
    await reconcile(stand)


@scenario(one_that_runs_and_is_known, steps=12, secret_delivery="file", pod_file=True)
async def repair_with_files(stand: Stand) -> None:
    stand.empty()
    await reconcile(stand)


@scenario(one_that_runs, steps=6)
async def owning(stand: Stand) -> None:
    await reconcile(stand)


@scenario(one_that_is_gone, steps=14)
async def release(stand: Stand) -> None:
    await reconcile(stand)


@scenario(one_that_is_gone, steps=14, secret_delivery="file", pod_file=True)
async def release_with_files(stand: Stand) -> None:
    await reconcile(stand)


@scenario(one_that_is_gone, steps=14)
async def release_of_a_pod(stand: Stand) -> None:
    """As a CNI plugin reports it."""
    assert stand.house is not None
    await stand.house.container.release_pod()(Question(namespace="telco", name="gone"), reason="a test")


@scenario(one_that_runs_and_is_known, steps=12, pods_restart=True)
async def force(stand: Stand) -> None:
    await forced(stand)


@scenario(one_was_forced_out, steps=8, pods_restart=True)
async def revival(stand: Stand) -> None:
    await restarted(stand)


@scenario(one_that_is_deleted, steps=1)
async def asking_the_kubelet_to_forget(stand: Stand) -> None:
    await reconcile(stand)


@scenario(one_that_runs_and_is_known, steps=3)
async def sweep(stand: Stand) -> None:
    """Two levels of a tenant's files in it."""
    (stand.host_dir / ORPHAN / "deep").mkdir(parents=True)
    (stand.host_dir / ORPHAN / "deep" / "file").touch()
    await reconcile(stand)
    stand.clock.advance(INTERVAL + GRACE)
    await reconcile(stand)


@scenario(the_journal_is_lost, steps=10)
async def adoption(stand: Stand) -> None:
    await stand.run()


@scenario(the_journal_is_lost, steps=10, secret_delivery="file")
async def adoption_with_a_secret_in_a_file(stand: Stand) -> None:
    await stand.run()


@scenario(the_journal_is_damaged, steps=12)
async def start_with_a_damaged_journal(stand: Stand) -> None:
    await stand.run()


@scenario(the_base_directory_is_empty, steps=6)
async def start_after_a_reboot(stand: Stand) -> None:
    await stand.run()


@scenario(a_release_was_cut_short, steps=6)
async def start_after_a_release_that_was_cut_short(stand: Stand) -> None:
    await stand.run()


@scenario(the_pool_is_smaller, steps=3)
async def start_with_a_smaller_pool(stand: Stand) -> None:
    """What the configuration takes away stays listed while it is held."""
    await stand.run()
