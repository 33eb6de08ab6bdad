"""The embedded node: a kubelet double on real Unix sockets.

What this package promises: a device plugin cannot tell it from kubelet 1.36, quirks included, and everything that
happens to a node (a restart of the kubelet, a reboot, a forced deletion, a crash between two steps) is one call.  The
same seed gives the same choices.  It uses only the directory that it was given, and leaves no task, descriptor or
connection behind when it is stopped.

Start at :mod:`adapters.memory.node.node`.  The rules are in :mod:`adapters.memory.node.devices` (pure) and
:mod:`adapters.memory.node.allocation`; the sockets in ``registration``, ``plugin``, ``pod_resources`` and ``front``.
"""

from adapters.memory.node.errors import KubeletCrashed
from adapters.memory.node.machine import Timing
from adapters.memory.node.node import EmbeddedNode
from adapters.memory.node.pods import Container, ContainerKind, ContainerSpec, Phase, Pod, PodSpec, Source
from adapters.memory.node.trace import Call

__all__ = [
    "Call",
    "Container",
    "ContainerKind",
    "ContainerSpec",
    "EmbeddedNode",
    "KubeletCrashed",
    "Phase",
    "Pod",
    "PodSpec",
    "Source",
    "Timing",
]
