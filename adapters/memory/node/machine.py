"""What outlives a kubelet: its node's directories, runtime, clock and records."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from adapters.memory.node import checkpoint
from adapters.memory.node.errors import KubeletCrashed
from adapters.memory.node.trace import Trace
from adapters.memory.runtime import MemoryRuntime
from domain.ports.clock import Clock

SOCKET_NAME: Final = "kubelet.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the kubelet takes for things, in seconds of real time.

    Attributes:
        readmit_after: from ``kubelet.sock`` accepting connections to the admission of pods; 77 to 104 ms measured.
        dial_timeout: for which it dials a plugin inside Register.
        pre_start_deadline: of PreStartContainer.
        retry: until it tries again to start a container; the real one takes 0.1 s at first, then 2 to 10 s.
        listen_delay: between ``bind`` and ``listen`` of ``kubelet.sock``.
        pod_resources_lead: for which pod-resources answers before there is a ``kubelet.sock``; 0.2 to 0.5 s seen.
    """

    readmit_after: float = 0.08
    dial_timeout: float = 10.0
    pre_start_deadline: float = 30.0
    retry: float = 0.1
    listen_delay: float = 0.0
    pod_resources_lead: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A node, as a kubelet that is started on it finds it.

    Attributes:
        root: holds everything that the node has on disk.
        missing_source: makes a mount's source that is not there, or raises ``OSError`` if the runtime refuses.
        limiter: whether pod-resources may answer one more call now.
        crashed: is told what would have crashed the real kubelet.
    """

    root: Path

    runtime: MemoryRuntime
    clock: Clock
    trace: Trace
    chance: Random
    missing_source: Callable[[str], None]
    limiter: Callable[[], bool]
    crashed: Callable[[KubeletCrashed], None]

    @property
    def plugin_dir(self) -> Path:
        """The directory of device plugins."""
        return self.root / "device-plugins"

    @property
    def pod_resources_dir(self) -> Path:
        """The directory of the pod-resources socket."""
        return self.root / "pod-resources"

    @property
    def pods_dir(self) -> Path:
        """Where pods would have their own directories."""
        return self.root / "pods"

    @property
    def kubelet_socket(self) -> Path:
        """Where plugins register."""
        return self.plugin_dir / SOCKET_NAME

    @property
    def checkpoint_path(self) -> Path:
        """The kubelet's record of devices."""
        return self.plugin_dir / checkpoint.FILE_NAME
