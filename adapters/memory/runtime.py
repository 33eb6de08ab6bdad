"""A container runtime without containers."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from domain.evidence import ObjectKind, ObjectState, RuntimeObject, RuntimeView
from domain.identity import PodUid
from domain.ports.clock import Clock
from domain.ports.runtime import RuntimeIdentity, RuntimeUnavailable

KUBELETS_OWN: Final = ("io.kubernetes.", "kubernetes.io/")
"""Annotations of these prefixes are written by the kubelet and are no pool's."""

IDENTITY: Final = RuntimeIdentity(kind="memory", version="1")
"""What every memory runtime says of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One snapshot that was asked for.

    Attributes:
        began: monotonic seconds.
        answered: whether a view was returned.
    """

    began: float
    answered: bool


class MemoryRuntime:
    """The port :class:`~domain.ports.runtime.ContainerRuntime`, over objects that somebody put here.

    ``prefixes`` are the annotation prefixes of the pools: only annotations below one of them are shown as claimed.
    Without prefixes, everything but the kubelet's own is.
    """

    def __init__(self, clock: Clock, prefixes: tuple[str, ...] | None = None) -> None:
        self._clock = clock
        self._prefixes = None if prefixes is None else tuple(f"{prefix}." for prefix in prefixes)
        self._objects: dict[str, RuntimeObject] = {}
        self._sandbox_of: dict[str, str] = {}
        self._made = 0
        self._failures: list[Exception] = []
        self._cut: str | None = None
        self._feeds: set[_Feed] = set()
        self.asked: list[Asked] = []

    async def snapshot(self) -> RuntimeView:
        """Return everything that exists."""
        began = self._clock.monotonic()
        failure = self._trouble()
        self.asked.append(Asked(began=began, answered=failure is None))
        if failure is not None:
            raise failure
        return RuntimeView(began=began, objects=self.objects)

    async def besides(self, ids: Collection[str]) -> RuntimeView:
        """Return what a snapshot does, without some objects."""
        view = await self.snapshot()
        return replace(view, objects=tuple(each for each in view.objects if each.id not in ids))

    async def identity(self) -> RuntimeIdentity:
        """Return which runtime answers now."""
        if self._cut is not None:
            raise RuntimeUnavailable(self._cut)
        return IDENTITY

    async def changes(self) -> AsyncGenerator[None]:
        """Yield after every lever that makes, changes or removes an object."""
        if self._cut is not None:
            raise RuntimeUnavailable(self._cut)
        feed = _Feed()
        self._feeds.add(feed)
        try:
            while True:
                await feed.hint()
                yield
        finally:
            self._feeds.discard(feed)

    async def aclose(self) -> None:
        """Break the feeds; there is nothing else to let go of."""
        self.break_feeds("the memory runtime was closed")

    def _trouble(self) -> Exception | None:
        if self._cut is not None:
            return RuntimeUnavailable(self._cut)
        return self._failures.pop(0) if self._failures else None

    # -- levers: the node's side of the runtime ----------------------------------------------------------------

    @property
    def objects(self) -> tuple[RuntimeObject, ...]:
        """What exists, without asking through the port."""
        return tuple(self._objects.values())

    @property
    def reachable(self) -> bool:
        """Whether the runtime answers."""
        return self._cut is None

    def object(self, name: str) -> RuntimeObject:
        """Return one object by its id."""
        return self._objects[name]

    def add_sandbox(
        self,
        *,
        uid: str | None,
        namespace: str | None,
        name: str | None,
        annotations: Mapping[str, str] | None = None,
        state: ObjectState = ObjectState.RUNNING,
    ) -> str:
        """Add a pod's sandbox, with the pod's own annotations, and return its id."""
        return self._add(
            RuntimeObject(
                id=self._next_id(),
                kind=ObjectKind.SANDBOX,
                state=state,
                uid=None if uid is None else PodUid(uid),
                namespace=namespace,
                name=name,
                claimed=self._claimed(annotations),
            )
        )

    def add_container(
        self,
        *,
        sandbox: str,
        container: str,
        mounts: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        state: ObjectState = ObjectState.CREATED,
    ) -> str:
        """Add a container of a sandbox's pod and return its id; ``mounts`` are host paths by container path."""
        pod = self._objects[sandbox]
        name = self._add(
            RuntimeObject(
                id=self._next_id(),
                kind=ObjectKind.CONTAINER,
                state=state,
                uid=pod.uid,
                namespace=pod.namespace,
                name=pod.name,
                container=container,
                mounts=dict(mounts or {}),
                claimed=self._claimed(annotations),
            )
        )
        self._sandbox_of[name] = sandbox
        return name

    def put(self, thing: RuntimeObject) -> str:
        """Add an object as it is, whatever a well-behaved runtime would show, and return its id."""
        return self._add(thing)

    def set_state(self, name: str, state: ObjectState) -> None:
        """Change an object's state."""
        self._objects[name] = replace(self._objects[name], state=state)
        self._hint()

    def remove(self, name: str) -> None:
        """Remove a container, or a sandbox with its containers; what is not there is ignored."""
        for container in [c for c, sandbox in self._sandbox_of.items() if sandbox == name]:
            self.remove(container)
        self._sandbox_of.pop(name, None)
        self._objects.pop(name, None)
        self._hint()

    def halt(self) -> None:
        """Let everything exit, as the end of a machine does."""
        for name in self._objects:
            self.set_state(name, ObjectState.EXITED)

    def fail_next(self, error: Exception | None = None) -> None:
        """Let the next snapshot fail once; called twice, the next two."""
        self._failures.append(error or RuntimeUnavailable("the runtime answered with an error, as it was told to"))

    def cut(self, reason: str = "the runtime does not answer") -> None:
        """Let everything that is asked fail until :meth:`restore`, and break the feeds."""
        self._cut = reason
        self.break_feeds(reason)

    def break_feeds(self, reason: str = "the runtime ended the feed") -> None:
        """Break the feeds that there are; whatever else is asked is answered."""
        for feed in self._feeds:
            feed.broken = reason
        self._hint()

    def restore(self) -> None:
        """Answer again."""
        self._cut = None

    def _add(self, thing: RuntimeObject) -> str:
        self._objects[thing.id] = thing
        self._hint()
        return thing.id

    def _hint(self) -> None:
        for feed in self._feeds:
            feed.news.set()

    def _next_id(self) -> str:
        self._made += 1
        return sha256(f"object {self._made}".encode()).hexdigest()

    def _claimed(self, annotations: Mapping[str, str] | None) -> dict[str, str]:
        return {key: text for key, text in (annotations or {}).items() if self._is_pools(key)}

    def _is_pools(self, key: str) -> bool:
        if self._prefixes is None:
            return not key.startswith(KUBELETS_OWN)
        return key.startswith(self._prefixes)


class _Feed:
    """One listener's: whether there is news for it, and why there will be no more.  It begins with a hint."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.news.set()
        self.broken: str | None = None

    async def hint(self) -> None:
        """Wait for news."""
        await self.news.wait()
        self.news.clear()
        if self.broken is not None:
            raise RuntimeUnavailable(self.broken)
