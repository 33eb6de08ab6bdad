"""How the kubelet merges what several plugins answered for one container.  Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from adapters._pb.kubelet.deviceplugin.v1beta1.api_pb2 import ContainerAllocateResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What a container is created with.

    Attributes:
        mounts: host path by container path.
        read_only: container paths of the read-only ones.
        dropped: names and paths that a second answer had too, and that were dropped.
    """

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    mounts: Mapping[str, str] = field(default_factory=dict)
    read_only: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)
    dropped: tuple[str, ...] = ()


def merge(answers: Iterable[ContainerAllocateResponse]) -> RunOptions:
    """Merge answers in the order given: the first to name an environment variable, mount or annotation wins."""
    env: dict[str, str] = {}
    mounts: dict[str, str] = {}
    read_only: set[str] = set()
    annotations: dict[str, str] = {}
    dropped: list[str] = []
    for answer in answers:
        dropped += _add(env, answer.envs)
        dropped += _add(annotations, answer.annotations)
        for mount in answer.mounts:
            if mount.container_path in mounts:
                dropped.append(mount.container_path)
                continue
            mounts[mount.container_path] = mount.host_path
            if mount.read_only:
                read_only.add(mount.container_path)
    return RunOptions(
        env=env,
        mounts=mounts,
        read_only=frozenset(read_only),
        annotations=annotations,
        dropped=tuple(dropped),
    )


def _add(target: dict[str, str], more: Mapping[str, str]) -> list[str]:
    known = [key for key in more if key in target]
    target.update({key: text for key, text in more.items() if key not in target})
    return known
