"""What every container runtime must do for its port."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, Protocol

import pytest

from domain.evidence import ObjectKind, ObjectState, RuntimeObject, RuntimeView
from domain.ports.clock import Clock
from domain.ports.runtime import ContainerRuntime, RuntimeUnavailable

PREFIX = "io.contivpp.memif"
"""The annotation prefix of the pool for which a stage's runtime is made."""

ID = "bcdfghjklmnpqrstvwxz"
SECRET = "averygoodsecret4u"

PATIENCE: Final = 30.0
"""Seconds until something that is awaited counts as not coming; far beyond the deadline of any stage's runtime."""


class Stage(Protocol):
    """A runtime behind its adapter, with levers that do not go through the port.  It begins without pods.

    The adapter is made for :data:`PREFIX`, with a deadline of a second or so.
    """

    @property
    def runtime(self) -> ContainerRuntime:
        """The adapter under test, made for :data:`PREFIX`."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that the adapter was given."""
        ...

    @property
    def kind(self) -> str:
        """What the adapter calls its runtime."""
        ...

    @property
    def host_dir(self) -> str:
        """A directory of the node whose subdirectories containers may mount; the runtime may make missing ones."""
        ...

    async def sandbox(self, uid: str, namespace: str, name: str, annotations: Mapping[str, str]) -> str:
        """Run a sandbox as the kubelet does, with the pod's own annotations; return its id."""
        ...

    async def container(
        self, sandbox: str, name: str, *, mounts: Mapping[str, str], annotations: Mapping[str, str]
    ) -> str:
        """Create a container of a sandbox, not started; ``mounts`` are host paths by container path."""
        ...

    async def start(self, container: str) -> None:
        """Start a container."""
        ...

    async def end(self, container: str) -> None:
        """Let a started container end; it still exists."""
        ...

    async def remove(self, container: str) -> None:
        """Remove a container that does not run."""
        ...

    async def cut(self) -> None:
        """Make the runtime unreachable."""
        ...

    async def hang(self) -> None:
        """Let it take connections and answer nothing."""
        ...

    async def restore(self) -> None:
        """Make it reachable again."""
        ...


def directory(stage: Stage) -> str:
    """Return the directory of an allocation."""
    return f"{stage.host_dir}/{ID}"


def claims(stage: Stage) -> dict[str, str]:
    """Return the annotations of a container that was given the directory."""
    return {
        f"{PREFIX}.socket.host": f"{directory(stage)}/memif.sock",
        f"{PREFIX}.socket.container": "/run/vpp/memif.sock",
        f"{PREFIX}.secret": SECRET,
    }


async def cnf(stage: Stage) -> str:
    """Create a container that was given the directory, in a pod of its own; return its id."""
    sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
    return await stage.container(sandbox, "a", mounts={"/run/vpp": directory(stage)}, annotations=claims(stage))


async def hint(feed: AsyncIterator[None]) -> None:
    """Wait for the next hint."""
    async with asyncio.timeout(PATIENCE):
        await anext(feed)


@asynccontextmanager
async def listening(stage: Stage) -> AsyncIterator[AsyncIterator[None]]:
    """Listen for changes; the feed is up."""
    feed = stage.runtime.changes()
    try:
        await hint(feed)
        yield feed
    finally:
        if isinstance(feed, AsyncGenerator):
            await feed.aclose()


async def _containers(stage: Stage) -> dict[str, RuntimeObject]:
    view = await stage.runtime.snapshot()
    return {thing.id: thing for thing in view.objects if thing.kind is ObjectKind.CONTAINER}


class RuntimeContract:
    """Subclass it and give a fixture ``stage``."""

    async def test_a_node_without_pods_is_a_known_and_empty_view(self, stage: Stage) -> None:
        view = await stage.runtime.snapshot()

        assert view.objects == ()

    async def test_a_sandbox_shows_its_pod(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})

        view = await stage.runtime.snapshot()

        (thing,) = view.objects
        assert (thing.id, thing.kind) == (sandbox, ObjectKind.SANDBOX)
        assert (thing.uid, thing.namespace, thing.name, thing.container) == ("uid-1", "telco", "cnf", None)

    async def test_a_container_shows_its_pod_and_its_name(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "dataplane", mounts={}, annotations={})

        thing = (await _containers(stage))[container]

        assert (thing.uid, thing.namespace, thing.name) == ("uid-1", "telco", "cnf")
        assert thing.container == "dataplane"

    async def test_pods_of_one_name_in_two_namespaces_are_told_apart(self, stage: Stage) -> None:
        for uid, namespace in (("uid-1", "red"), ("uid-2", "blue")):
            sandbox = await stage.sandbox(uid, namespace, "cnf", {})
            await stage.container(sandbox, "a", mounts={}, annotations={})

        found = {(thing.uid, thing.namespace) for thing in (await _containers(stage)).values()}

        assert found == {("uid-1", "red"), ("uid-2", "blue")}

    async def test_a_pod_made_again_under_its_name_is_another_pod(self, stage: Stage) -> None:
        """The old one's containers exist until the kubelet removes them, beside the new one's."""
        made = {}
        for uid in ("uid-1", "uid-2"):
            sandbox = await stage.sandbox(uid, "telco", "cnf", {})
            made[await stage.container(sandbox, "a", mounts={}, annotations={})] = uid

        found = {thing.id: thing.uid for thing in (await _containers(stage)).values()}

        assert found == made

    async def test_a_container_names_the_directory_that_it_mounts(self, stage: Stage) -> None:
        container = await cnf(stage)

        thing = (await _containers(stage))[container]

        assert thing.mounts.get("/run/vpp") == directory(stage)

    async def test_the_pools_annotations_of_a_container_are_claims_and_others_are_not(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        others = {"example.com/mine": "x", f"{PREFIX}elsewhere.secret": "another pool's", PREFIX: "not below it"}
        container = await stage.container(
            sandbox, "a", mounts={"/run/vpp": directory(stage)}, annotations={**claims(stage), **others}
        )

        thing = (await _containers(stage))[container]

        assert thing.claimed == claims(stage)

    async def test_a_sandbox_shows_what_its_pod_claims_and_mounts_nothing_of_it(self, stage: Stage) -> None:
        """A pod's annotations are copied to its sandbox, and any tenant can write them: shown to be counted only."""
        await stage.sandbox("uid-1", "telco", "cnf", {**claims(stage), "example.com/mine": "x"})

        (thing,) = (await stage.runtime.snapshot()).objects

        assert thing.claimed == claims(stage)
        assert directory(stage) not in thing.mounts.values()

    async def test_a_container_that_never_started_exists(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})

        things = await _containers(stage)

        assert things[container].state is ObjectState.CREATED

    async def test_a_container_that_runs_shows_so(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})
        await stage.start(container)

        things = await _containers(stage)

        assert things[container].state is ObjectState.RUNNING

    async def test_a_container_that_has_ended_still_exists_with_all_that_it_names(self, stage: Stage) -> None:
        """The kubelet keeps ended containers for a while, and may start the pod's next one on the same directory."""
        container = await cnf(stage)
        await stage.start(container)
        await stage.end(container)

        thing = (await _containers(stage))[container]

        assert thing.state is ObjectState.EXITED
        assert thing.mounts.get("/run/vpp") == directory(stage)
        assert thing.claimed == claims(stage)

    async def test_a_removed_container_is_gone(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        container = await stage.container(sandbox, "a", mounts={}, annotations={})
        await stage.remove(container)

        view = await stage.runtime.snapshot()

        assert [thing.id for thing in view.objects] == [sandbox]

    async def test_a_runtime_that_does_not_answer_is_an_error_and_never_an_empty_view(self, stage: Stage) -> None:
        await stage.sandbox("uid-1", "telco", "cnf", {})
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.snapshot()

    async def test_a_runtime_that_answers_again_shows_what_exists(self, stage: Stage) -> None:
        sandbox = await stage.sandbox("uid-1", "telco", "cnf", {})
        await stage.cut()
        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.snapshot()
        await stage.restore()

        view = await stage.runtime.snapshot()

        assert [thing.id for thing in view.objects] == [sandbox]

    async def test_a_reading_began_when_it_was_asked_for(self, stage: Stage) -> None:
        """Nothing that happened after its beginning can be concluded from a reading."""
        before = stage.clock.monotonic()

        view = await stage.runtime.snapshot()

        assert before <= view.began <= stage.clock.monotonic()

    async def test_no_claim_shows_in_a_printed_object(self, stage: Stage) -> None:
        """A claim may hold a secret, and objects end up in log lines and assertion messages."""
        await cnf(stage)

        view = await stage.runtime.snapshot()

        assert SECRET not in repr(view)

    async def test_readings_at_the_same_time_all_see_what_exists(self, stage: Stage) -> None:
        container = await cnf(stage)

        views = await asyncio.gather(*(stage.runtime.snapshot() for _ in range(5)))

        assert all(container in {thing.id for thing in view.objects} for view in views)
        assert all(directory(stage) in _mounted(view) for view in views)

    async def test_a_runtime_that_hangs_is_an_error_within_the_deadline(self, stage: Stage) -> None:
        await cnf(stage)
        await stage.hang()

        async with asyncio.timeout(PATIENCE):
            with pytest.raises(RuntimeUnavailable):
                await stage.runtime.snapshot()
            with pytest.raises(RuntimeUnavailable):
                await stage.runtime.identity()

    async def test_a_runtime_that_hung_is_read_again_once_it_goes_on(self, stage: Stage) -> None:
        container = await cnf(stage)
        await stage.hang()
        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.snapshot()
        await stage.restore()

        assert container in await _containers(stage)

    async def test_a_runtime_that_was_restarted_between_two_readings_is_read_as_if_it_had_not(
        self, stage: Stage
    ) -> None:
        container = await cnf(stage)
        await stage.runtime.snapshot()
        await stage.cut()
        await stage.restore()

        assert container in await _containers(stage)

    async def test_the_runtime_says_which_one_it_is(self, stage: Stage) -> None:
        identity = await stage.runtime.identity()

        assert identity.kind == stage.kind
        assert identity.version

    async def test_a_runtime_that_does_not_answer_has_no_identity(self, stage: Stage) -> None:
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await stage.runtime.identity()
        await stage.restore()
        assert (await stage.runtime.identity()).kind == stage.kind

    async def test_the_first_hint_comes_although_nothing_changes(self, stage: Stage) -> None:
        """So that a listener knows when its feed is up, and reads what it missed before."""
        async with listening(stage):
            pass

    async def test_what_comes_changes_and_goes_is_hinted_at(self, stage: Stage) -> None:
        async with listening(stage) as feed:
            container = await cnf(stage)
            await _await_hint_of(stage, feed, container, ObjectState.CREATED)
            await stage.start(container)
            await _await_hint_of(stage, feed, container, ObjectState.RUNNING)
            await stage.end(container)
            await _await_hint_of(stage, feed, container, ObjectState.EXITED)
            await stage.remove(container)
            await _await_hint_of(stage, feed, container, None)

    async def test_every_listener_is_given_hints_of_its_own(self, stage: Stage) -> None:
        async with listening(stage) as one, listening(stage) as other:
            await cnf(stage)

            await hint(one)
            await hint(other)

    async def test_a_feed_of_a_runtime_that_does_not_answer_is_an_error(self, stage: Stage) -> None:
        await stage.cut()

        with pytest.raises(RuntimeUnavailable):
            await hint(stage.runtime.changes())

    async def test_a_feed_that_is_cut_is_an_error_and_a_new_one_works(self, stage: Stage) -> None:
        async with listening(stage) as feed:
            await stage.cut()
            with pytest.raises(RuntimeUnavailable):
                await _exhausted(feed)
        await stage.restore()

        async with listening(stage) as feed:
            await cnf(stage)
            await hint(feed)

    async def test_it_can_be_closed_unused_used_and_twice(self, stage: Stage) -> None:
        await stage.runtime.snapshot()

        await stage.runtime.aclose()
        await stage.runtime.aclose()


def _mounted(view: RuntimeView) -> set[str]:
    return {path for thing in view.objects for path in thing.mounts.values()}


async def _await_hint_of(stage: Stage, feed: AsyncIterator[None], container: str, state: ObjectState | None) -> None:
    """Read whenever there is a hint, and at least one there must be, until the container is in a state, or gone."""
    seen: ObjectState | str | None = "not yet"
    while seen is not state:
        await hint(feed)
        found = (await _containers(stage)).get(container)
        seen = found.state if found else None


async def _exhausted(feed: AsyncIterator[None]) -> None:
    """Take hints until the feed breaks; some may still be on their way when it is cut."""
    async with asyncio.timeout(PATIENCE):
        async for _ in feed:
            pass
