"""What the kubelet is told to give a container, and how our own answers are read back.

The kubelet keeps every answer in its checkpoint and replays it, so an answer is also the durable record from which
a lost journal is rebuilt.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from domain.allocation import Allocation, File
from domain.identity import AllocationId, is_allocation_id
from domain.pool import Pool, SecretDelivery
from domain.secret import MASK, Secret, is_secret

SECRET_FILE: Final = "secret"
POD_FILE: Final = "memif.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A directory of the node, bind-mounted into the container."""

    host_path: str
    container_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one container request.  The values may hold a secret, so ``repr`` shows the keys only."""

    envs: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        keys = f"envs={sorted(self.envs)}, annotations={sorted(self.annotations)}"
        return f"Answer({keys}, mounts={self.mounts!r}, values={MASK})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an answer says of an allocation: where it lives and its secret, if the answer carries one."""

    id: AllocationId
    host_dir: str
    container_dir: str
    socket_name: str
    secret: Secret | None


def answer(pool: Pool, allocation: Allocation) -> Answer:
    """Return what a container gets for its allocation.

    One directory, one socket and one secret, whatever the number of devices; the same whatever the order in which
    the kubelet names them.  Two environment variables and three annotations, as Contiv-VPP gave them.
    """
    prefix, suffix = pool.annotation_prefix, pool.env_suffix
    envs = {f"MEMIF_SOCKET{suffix}": allocation.container_socket}
    annotations = {
        f"{prefix}.socket.host": allocation.host_socket,
        f"{prefix}.socket.container": allocation.container_socket,
    }
    if pool.secret_delivery.in_answer:
        envs[f"MEMIF_SECRET{suffix}"] = allocation.secret.reveal()
        annotations[f"{prefix}.secret"] = allocation.secret.reveal()
    if pool.pod_env_extra:
        numbers = range(1, len(allocation.devices) + 1)
        envs[f"MEMIF_COUNT{suffix}"] = str(len(allocation.devices))
        envs[f"MEMIF_IDS{suffix}"] = ",".join(map(str, numbers))
    mount = Mount(
        host_path=allocation.directory.path,
        container_path=allocation.container_dir,
        read_only=pool.read_only_mount,
    )
    return Answer(envs=envs, mounts=(mount,), annotations=annotations)


def files(pool: Pool, devices: tuple[str, ...], secret: Secret) -> tuple[File, ...]:
    """Return the files that the pool puts into an allocation's directory; none unless configured."""
    made = []
    if pool.secret_delivery.in_directory:
        made.append(File(name=SECRET_FILE, content=secret.reveal()))
    if pool.pod_file:
        interfaces = [
            {
                "device": name,
                "id": number,
                "role": "client",
                "mode": "ethernet",
                "socket": pool.container_socket,
            }
            for number, name in enumerate(devices, start=1)
        ]
        made.append(File(name=POD_FILE, content=json.dumps({"version": 1, "interfaces": interfaces}) + "\n"))
    return tuple(made)


def claim(pool: Pool, given: Answer) -> Claim | None:
    """Read an answer of ours back; ``None`` if it is incomplete or contradicts itself.

    The annotations must be complete (see :func:`written`) and agree with a mount of the answer.
    """
    found = written(pool, given.annotations)
    if found is None:
        return None
    directory = f"{found.host_dir}/{found.id}"
    mounted = any(m.host_path == directory and m.container_path == found.container_dir for m in given.mounts)
    return found if mounted else None


def written(pool: Pool, annotations: Mapping[str, str]) -> Claim | None:
    """Read the annotations of an answer back; ``None`` if they are incomplete or contradict each other.

    The socket's two annotations must be there, with one base name for the socket and a well-formed id.  The secret
    must be there too unless the pool delivers it by file.
    """
    host_socket = annotations.get(f"{pool.annotation_prefix}.socket.host", "")
    container_socket = annotations.get(f"{pool.annotation_prefix}.socket.container", "")
    directory, _, socket_name = host_socket.rpartition("/")
    container_dir, _, container_name = container_socket.rpartition("/")
    host_dir, _, name = directory.rpartition("/")
    if not is_allocation_id(name) or not socket_name or socket_name != container_name:
        return None
    text = annotations.get(f"{pool.annotation_prefix}.secret")
    if text is None and pool.secret_delivery is not SecretDelivery.FILE:
        return None
    if text is not None and not is_secret(text):
        return None
    return Claim(
        id=AllocationId(name),
        host_dir=host_dir,
        container_dir=container_dir,
        socket_name=socket_name,
        secret=None if text is None else Secret(text),
    )
