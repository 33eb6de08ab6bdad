"""The probe: whether the peer behind an allocation's socket, or behind any other, would have a client.

For a moment a probe holds the interface, and the real client, if it comes just then, is told that it is taken.  So a
socket of ours is left alone while its container may run.  Whether it may, the daemon is asked, and looks anew.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from adapters.control.client import ControlClient, Failed
from adapters.control.shapes import Shape
from adapters.filesystem import files
from adapters.memif import client
from adapters.memif.client import Probed
from adapters.memif.codec import spelled
from domain.dismissal import InUse
from domain.errors import MemifError
from domain.lookup import NoMemif, UnknownNow
from domain.secret import LONGEST_SECRET, Secret, is_secret

_KNOWN: Final = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContainer:
    """Whose socket is meant.

    Attributes:
        container: ``None`` for the only one of the pod that holds memif.
    """

    namespace: str
    pod: str
    container: str | None = None

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.pod, self.container)))


class SeveralContainers(MemifError):
    """More than one container of the pod holds memif, and none was named."""


class NotAdmitted(MemifError):
    """No probe was made, because its place may be a running container's.

    Attributes:
        reason: IN_USE, or why the daemon could not tell: UNREACHABLE, UNKNOWN_NOW.
    """

    def __init__(self, why: str, reason: str) -> None:
        super().__init__(f"not probed, because a probe takes the place of the pod's own client for a moment: {why}")
        self.reason = reason


class SecretUnreadable(MemifError):
    """A file does not hold a secret, or cannot be read."""


async def probe_pod(daemon: ControlClient, whose: PodContainer, *, interface: int, force: bool) -> Shape:
    """Probe the socket that a container was given, with its secret.

    Args:
        daemon: tells socket and secret, and whether the container may run.
        whose: the container.
        interface: memif id.
        force: also if the container may run.

    Raises:
        Failed: the daemon does not answer, knows no such container with memif, or cannot tell now.
        SeveralContainers: it must be said which one is meant.
        NotAdmitted: the container may run.
        ChannelUnusable: no answer could be had from the peer.
    """
    answer = await daemon.pod(whose.namespace, whose.pod, None, wait=0, secrets=True)
    given = _chosen(answer["containers"], whose)
    if not force:
        await _admit_container(daemon, given["allocation"], whose)
    probed = await client.probe(given["host_socket"], interface=interface, secret=Secret(given["secret"]))
    return _shape(probed, given["host_socket"], interface, given["allocation"])


async def probe_socket(
    daemon: ControlClient, path: str, *, interface: int, secret: Secret | None, force: bool
) -> Shape:
    """Probe whoever listens at a path.

    Args:
        daemon: tells whether that is the socket of a container which may run.
        path: of the socket, however it is spelled.
        interface: memif id.
        secret: ``None`` to give none.
        force: do not ask the daemon.

    Raises:
        NotAdmitted: it is such a socket, or the daemon cannot tell.
        ChannelUnusable: no answer could be had from the peer.
    """
    allocation = None if force else await _admit_path(daemon, path)
    probed = await client.probe(path, interface=interface, secret=secret)
    return _shape(probed, path, interface, allocation)


def secret_in(path: str) -> Secret:
    """Return the secret that a file holds; the end of its line is not of it.

    A symbolic link is not followed: the file may lie where a pod writes, and what it holds is sent to a peer.

    Raises:
        SecretUnreadable: it cannot be read, or holds something else.
    """
    directory, name = os.path.split(path)
    try:
        holder = os.open(directory or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            content = files.read(holder, name)
        finally:
            os.close(holder)
    except OSError as error:
        raise SecretUnreadable(f"the secret in {path} cannot be read: {error.strerror}") from error
    if content is None:
        raise SecretUnreadable(
            f"there is no secret in {path}: it is missing, or no regular file of a few bytes; symbolic links are not"
            " followed, so give the path of the file itself"
        )
    text = content.decode("ascii", "replace").removesuffix("\n").removesuffix("\r")
    if not is_secret(text):
        raise SecretUnreadable(
            f"there is no memif secret in {path}: one has 1 to {LONGEST_SECRET} visible ASCII characters, no comma"
            " and no quote among them, and is alone in its file"
        )
    return Secret(text)


def _chosen(containers: Sequence[Shape], whose: PodContainer) -> Shape:
    """Return what the container that is meant was given."""
    names = ", ".join(str(each["name"]) for each in containers)
    if whose.container is None:
        if len(containers) > 1:
            raise SeveralContainers(f"several containers of {whose} hold memif, say {whose}/ and one of: {names}")
        return containers[0]
    for each in containers:
        if each["name"] == whose.container:
            return each
    raise Failed(f"no container {whose} holds memif; of this pod do: {names}", NoMemif.reason)


async def _admit_container(daemon: ControlClient, allocation: str, whose: PodContainer) -> None:
    runtime, listed = await _look(daemon)
    (running,) = [each["running"] for each in listed if each["id"] == allocation] or [False]
    if running is None:
        raise Failed(
            f"cannot tell now whether container {whose} runs: {runtime}; --force probes all the same", UnknownNow.reason
        )
    if running:
        raise NotAdmitted(f"container {whose} runs; --force does it all the same", InUse.reason)


async def _admit_path(daemon: ControlClient, path: str) -> str | None:
    """Return the allocation whose socket lies at a path, ``None`` if none does."""
    try:
        runtime, listed = await _look(daemon)
    except Failed as failed:
        raise NotAdmitted(
            f"whether a running container was given {path}, the daemon cannot be asked: {failed}; --force does not ask",
            failed.reason,
        ) from failed
    place = _place(path)
    found = next((each for each in listed if place is not None and _place(each["host_socket"]) == place), None)
    if found is None:
        return None
    if found["running"] is None:
        raise NotAdmitted(
            f"whether the container that was given {path} runs cannot be told now: {runtime}; --force does not ask",
            UnknownNow.reason,
        )
    if found["running"]:
        raise NotAdmitted(f"a container runs that was given {path}; --force does it all the same", InUse.reason)
    return str(found["id"])


async def _look(daemon: ControlClient) -> tuple[str, list[Shape]]:
    """Have the daemon look at the node, and return what it says of the runtime and of every allocation."""
    looked = await daemon.reconcile(dry_run=True)
    runtime = looked["views"]["runtime"]
    return (
        "the runtime shows no pod at all" if runtime == _KNOWN else f"runtime view {runtime}",
        await daemon.allocations(),
    )


def _place(path: str) -> tuple[int, int, str] | None:
    """Return what is the same for every spelling of a path; ``None`` if its directory cannot be looked at."""
    directory, name = os.path.split(path)
    try:
        found = os.stat(directory or ".")  # noqa: PTH116 -- paths of others, as they are
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, name


def _shape(probed: Probed, path: str, interface: int, allocation: str | None) -> Shape:
    hello = probed.hello
    return {
        "socket": path,
        "allocation": allocation,
        "peer": {"name": hello.name, "lowest": spelled(hello.lowest), "highest": spelled(hello.highest)},
        "interface": interface,
        "accepted": probed.accepted,
        "refusal": probed.refusal,
    }
