"""The choices that an operator has.

The members' values are what stands in the file, what the composition root selects by and what the help shows.
"""

from enum import StrEnum


class RuntimeKind(StrEnum):
    """Which container runtime tells us what exists on the node."""

    AUTO = "auto"
    """The one of containerd, docker and CRI that holds the pods of a kubelet."""
    DOCKER = "docker"
    CONTAINERD = "containerd"
    CRI = "cri"
    MEMORY = "memory"
    """None: an empty runtime in memory, for development."""


class LogLevel(StrEnum):
    """The least important events that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How log lines are written."""

    JSON = "json"
    """One object a line, for machines."""
    CONSOLE = "console"
    """For people in front of a terminal."""
