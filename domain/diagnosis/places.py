"""Whether a pool's base directory lies where it should."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from domain.diagnosis.findings import Finding, doubtful, fine, told, wrong

BASE: Final = "base directory"
FILE_SYSTEM: Final = "file system"
OPTIONS: Final = "mount options"
LIMITS: Final = "limits"
ROOM: Final = "room"
SELINUX: Final = "SELinux"

LEAST: Final = 0.05
"""Share of space and inodes below which nothing is allocated."""

_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "ocfs2", "gfs2", "afs", "virtiofs"}
)
_SHARED: Final = frozenset({"/", "/run", "/var", "/var/run", "/var/lib", "/tmp"})  # noqa: S108 - compared, not used
_OWN: Final = "mount a tmpfs of its own on it, with nosuid,nodev,noexec, size= and nr_inodes="


@dataclass(frozen=True, slots=True, kw_only=True)
class MountFacts:
    """A mount, as the kernel describes it.

    Attributes:
        kind: of its file system.
        point: where it is mounted.
        root: which part of the file system is.
        options: of the mount and of the file system.
    """

    kind: str
    point: str
    root: str
    options: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomFacts:
    """How much is left; shares from 0 to 1, ``None`` where there is no limit."""

    space: float | None
    inodes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelinuxFacts:
    """How SELinux stands.

    Attributes:
        enforcing: it forbids what is not allowed.
        rule: the pool's: ``auto``, ``none`` or a label.
        labelled: the file system can hold labels, or a mount option gives it one for containers.
        bare: names of directories that do not have the label that the rule wants.
    """

    enforcing: bool
    rule: str
    labelled: bool
    bare: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseFacts:
    """What was seen of a base directory.

    Attributes:
        host_dir: as configured.
        there: it exists; the daemon makes it if it does not.
        trouble: why the daemon cannot use it, and the way out; ``None`` if it can.
        hidden: that cannot be judged with our rights.
        mount: of the directory, or of what would hold it; ``None`` if that cannot be told.
        room: what is left there; ``None`` if that cannot be told.
        selinux: ``None`` if the kernel has none.
        spellings: the paths by which the directory may be named.
    """

    host_dir: str
    there: bool
    trouble: str | None
    hidden: bool
    mount: MountFacts | None
    room: RoomFacts | None
    selinux: SelinuxFacts | None
    spellings: frozenset[str]


def judge(facts: BaseFacts) -> Iterator[Finding]:
    """Yield what the facts say of a base directory."""
    yield _directory(facts)
    if facts.mount is not None:
        yield _file_system(facts.host_dir, facts.mount)
        yield _options(facts.host_dir, facts.mount)
        yield _limits(facts.host_dir, facts.mount, facts.room)
    if facts.room is not None:
        yield _room(facts.host_dir, facts.room)
    yield _selinux(facts.host_dir, facts.selinux)


def _directory(facts: BaseFacts) -> Finding:
    if facts.trouble is not None:
        return told(BASE, facts.trouble)
    if facts.hidden:
        return doubtful(BASE, f"{facts.host_dir} cannot be judged with these rights", "run as root")
    return fine(BASE, f"{facts.host_dir} {'can be used' if facts.there else 'is made when the daemon starts'}")


def _file_system(host_dir: str, mount: MountFacts) -> Finding:
    kind = mount.kind
    if kind in _NETWORK or kind.startswith("fuse"):
        return wrong(
            FILE_SYSTEM,
            f"{host_dir} lies on {kind} at {mount.point}, where sockets do not work and a dead server hangs the daemon",
            f"set host_dir to a local file system, or {_OWN}",
        )
    if kind == "overlay":
        return wrong(
            FILE_SYSTEM,
            f"{host_dir} lies on an overlay at {mount.point}: this container's own files, which no pod can mount",
            f"mount the node's {host_dir.rpartition('/')[0]} into the daemon's container at the same path; on a node"
            f" whose root is an overlay, {_OWN}",
        )
    outlives = "" if kind in {"tmpfs", "ramfs"} else "; what lies there outlives a reboot until it is swept"
    return fine(FILE_SYSTEM, f"{host_dir} lies on {kind} at {mount.point}{outlives}")


def _options(host_dir: str, mount: MountFacts) -> Finding:
    missing = [option for option in ("nosuid", "nodev") if option not in mount.options]
    if missing:
        return doubtful(
            OPTIONS,
            f"{mount.point}, which holds {host_dir}, is mounted without {' and '.join(missing)}: pods write there",
            _OWN if mount.point in _SHARED else "remount it with nosuid,nodev",
        )
    return fine(OPTIONS, f"{mount.point} is mounted with nosuid and nodev")


def _limits(host_dir: str, mount: MountFacts, room: RoomFacts | None) -> Finding:
    if mount.point in _SHARED or mount.root != "/":
        return doubtful(
            LIMITS, f"{host_dir} shares its file system with others, so a pod can fill it for everybody", _OWN
        )
    if room is not None and room.space is None:
        return doubtful(LIMITS, f"{mount.point} has no size limit, so a pod can use up the node's memory", _OWN)
    if room is not None and room.inodes is None and mount.kind == "tmpfs":
        return doubtful(LIMITS, f"{mount.point} has no limit of inodes, so a pod can use up the node's memory", _OWN)
    return fine(LIMITS, f"{host_dir} has a file system of its own, with limits")


def _room(host_dir: str, room: RoomFacts) -> Finding:
    shares = {"space": room.space, "inodes": room.inodes}
    left = {name: share for name, share in shares.items() if share is not None}
    short = [f"{share:.1%} of the {name}" for name, share in left.items() if share < LEAST]
    if short:
        return wrong(
            ROOM,
            f"{' and '.join(short)} is left for {host_dir}, and {LEAST:.0%} is the least for a new allocation",
            "find with du and df what uses it, make that pod clean up or delete it, or enlarge the file system",
        )
    shown = " and ".join(f"{share:.0%} of the {name}" for name, share in left.items())
    return fine(ROOM, f"{shown} is left for {host_dir}" if shown else f"{host_dir} has no limit that could be reached")


def _selinux(host_dir: str, selinux: SelinuxFacts | None) -> Finding:
    if selinux is None or not selinux.enforcing:
        return fine(SELINUX, "not enforcing")
    if selinux.rule == "none":
        return wrong(
            SELINUX,
            f"it enforces, and selinux_label of {host_dir} is none: containers are denied their own sockets",
            "set the pool's selinux_label to auto",
        )
    if not selinux.labelled:
        return wrong(
            SELINUX,
            f"it enforces, and the file system of {host_dir} holds no labels: containers are denied their own sockets",
            'mount it with context="system_u:object_r:container_file_t:s0"',
        )
    if selinux.bare:
        return wrong(
            SELINUX,
            f"it enforces, and directories in {host_dir} lack their label: {', '.join(selinux.bare)}",
            "restart the daemon, which mends them; if it cannot, see ausearch -m avc -ts recent",
        )
    return fine(SELINUX, f"enforcing, and {host_dir} is labelled for containers")
