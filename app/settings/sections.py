"""The sections of the configuration that are not pools.

The default of each key is the documented one; units are seconds; what ``None`` means stands beside the key.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.settings.choices import LogFormat, LogLevel, RuntimeKind
from app.settings.faults import shown
from app.settings.values import (
    AbsolutePath,
    ContainerdNamespace,
    Duration,
    Endpoint,
    FileName,
    Group,
    Interval,
    Listen,
    SocketMode,
    SocketPath,
    split_address,
)

SECTION: Final = ConfigDict(frozen=True, extra="forbid", strict=True)
"""Strict, because a file that says ``capacity: "100"`` has more wrong with it than the quotes."""

_SOCKET_SUFFIX: Final = ".sock"


def _plugin_endpoint(value: str) -> str:
    if not value.endswith(_SOCKET_SUFFIX) or value == _SOCKET_SUFFIX:
        raise ValueError(f"must be a name that ends in {_SOCKET_SUFFIX}, not {shown(value)}")
    return value


class RuntimeSettings(BaseModel):
    """The container runtime.  ``endpoint`` ``None`` = the usual places of that runtime."""

    model_config = SECTION

    kind: Annotated[RuntimeKind, Field(strict=False)] = RuntimeKind.AUTO
    endpoint: Endpoint | None = None
    containerd_namespace: ContainerdNamespace = "k8s.io"


class KubeletSettings(BaseModel):
    """Where the kubelet is.

    The three paths are separate keys, because distributions that move the kubelet's root directory leave the
    device-plugin directory where it is: that one is fixed in the kubelet.
    """

    model_config = SECTION

    plugin_dir: AbsolutePath = "/var/lib/kubelet/device-plugins"
    socket: FileName = "kubelet.sock"
    endpoint: Annotated[FileName, AfterValidator(_plugin_endpoint)] = "contiv-vpp.sock"
    pod_resources: SocketPath = "/var/lib/kubelet/pod-resources/kubelet.sock"

    @property
    def socket_path(self) -> str:
        """Where the kubelet takes registrations."""
        return f"{self.plugin_dir}/{self.socket}"

    @property
    def endpoint_stem(self) -> str:
        """What the names of our own sockets begin with."""
        return self.endpoint.removesuffix(_SOCKET_SUFFIX)


class ControlSettings(BaseModel):
    """The control sockets.  ``group`` ``None`` = root's; ``agent_socket`` ``None`` = there is none."""

    model_config = SECTION

    socket: SocketPath = "/run/memif-device-plugin/control.sock"
    mode: SocketMode = 0o600
    group: Group = None
    agent_socket: SocketPath | None = None
    agent_group: Group = None


class HttpSettings(BaseModel):
    """Metrics and health.  ``listen`` ``None`` = off."""

    model_config = SECTION

    listen: Listen | None = "127.0.0.1:9599"

    @property
    def address(self) -> tuple[str, int] | None:
        """Host (an IPv6 address without brackets) and port; ``None`` = off."""
        return None if self.listen is None else split_address(self.listen)


class ReconcileSettings(BaseModel):
    """How often evidence is compared with the ledger, and how long something is left alone; both in seconds."""

    model_config = SECTION

    interval: Interval = 30.0
    grace: Duration = 30.0


class LogSettings(BaseModel):
    """What is logged and how."""

    model_config = SECTION

    level: Annotated[LogLevel, Field(strict=False)] = LogLevel.INFO
    format: Annotated[LogFormat, Field(strict=False)] = LogFormat.JSON
