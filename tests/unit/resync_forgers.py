"""Tenants who claim memif: by annotations of their pods, by labels of their images, by mounts of host paths.

They know every id and every secret that there ever was, which is more than a tenant can know.
"""

from dataclasses import dataclass
from typing import Final

from domain.evidence import ObjectState
from domain.identity import AllocationId, PodUid
from tests.unit.domain_values import a_secret, an_allocation, an_id
from tests.unit.resync_world import POOL, Node

FORMS: Final = ("whole", "without a secret", "in another base", "with a climbing path", "huge")
MOUNTS: Final = ("in its place", "elsewhere", "none")

_STRANGE: Final = an_id(700)
"""Well formed, and never granted to anybody."""


@dataclass(frozen=True)
class Forgery:
    """A claim that a tenant makes up.

    Attributes:
        uid: of the forger's pod, which may be anybody's; old containers of cri-dockerd may have none.
        place: which of all ids it is about.
        leaked: it carries the right secret, if there is one.
        form: how the claim is written; one of :data:`FORMS`.
        mounts: where the directory is mounted; one of :data:`MOUNTS`.
        on_sandbox: the pod's annotations, and not a container's.
    """

    uid: PodUid | None
    place: int
    leaked: bool
    form: str
    mounts: str
    on_sandbox: bool
    state: ObjectState


def forge(node: Node, forgery: Forgery) -> None:
    """Let the runtime show a forgery; it makes a missing source of a mount itself."""
    names = [*node.granted, *(name for name in node.directories if name not in node.granted), _STRANGE]
    name = names[forgery.place % len(names)]
    mounts = {}
    if not forgery.on_sandbox and forgery.mounts != "none":
        node.make(name)
        inside = POOL.container_dir if forgery.mounts == "in its place" else "/host"
        mounts[inside] = node.path(name)
    made = node.show(
        uid=forgery.uid,
        container=None if forgery.on_sandbox else "forger",
        mounts=mounts,
        claimed=_claim(node, name, forgery),
        state=forgery.state,
    )
    node.forged.add(made)


def _claim(node: Node, name: AllocationId, forgery: Forgery) -> dict[str, str]:
    known = node.granted.get(name)
    secret = known.secret if known is not None and forgery.leaked else a_secret(999)
    true = an_allocation(name, pool=POOL, secret=secret)
    host, container = f"{POOL.annotation_prefix}.socket.host", f"{POOL.annotation_prefix}.socket.container"
    written = {
        host: true.host_socket,
        container: true.container_socket,
        f"{POOL.annotation_prefix}.secret": secret.reveal(),
    }
    match forgery.form:
        case "without a secret":
            del written[f"{POOL.annotation_prefix}.secret"]
        case "in another base":
            written[host] = f"/etc/{name}/{POOL.socket_name}"
        case "with a climbing path":
            written[host] = f"{POOL.host_dir}/{name}/../{name}/{POOL.socket_name}"
        case "huge":
            written[f"{POOL.annotation_prefix}.secret"] = "x" * 100_000
        case _:
            assert forgery.form == "whole"
    return written
