"""What the operator wishes, as one checked and frozen value.

What this package promises: :func:`load` either returns settings that are consistent in themselves, or raises
:class:`InvalidSettings` with *every* fault it found, each with its key path and where it was written.  It reads the
configuration file and the environment and touches nothing else: no socket, no directory and no name of the node.  A
YAML file comes first, environment variables ``MEMIF_DP_*`` override it, flags override both; what nobody gives has
a default that works.

Read in this order: :mod:`app.settings.model` (the keys), :mod:`app.settings.values` (what a single value may be),
:mod:`app.settings.consistency` (what values must not be together), :mod:`app.settings.layers` (where they come from)
and :mod:`app.settings.loading` (how it is put together).
"""

from app.settings.choices import LogFormat, LogLevel, RuntimeKind
from app.settings.faults import Fault, InvalidSettings
from app.settings.loading import Effective, load, read
from app.settings.model import Settings
from app.settings.pools import PoolSettings
from app.settings.sections import (
    ControlSettings,
    HttpSettings,
    KubeletSettings,
    LogSettings,
    ReconcileSettings,
    RuntimeSettings,
)

__all__ = [
    "ControlSettings",
    "Effective",
    "Fault",
    "HttpSettings",
    "InvalidSettings",
    "KubeletSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "PoolSettings",
    "ReconcileSettings",
    "RuntimeKind",
    "RuntimeSettings",
    "Settings",
    "load",
    "read",
]
