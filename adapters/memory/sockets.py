"""Directories of control sockets without a file system."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from domain.allocation import Directory, File
from domain.evidence import DirectoryView
from domain.identity import AllocationId, is_allocation_id
from domain.pool import DirectoryRules
from domain.ports.clock import Clock
from domain.ports.sockets import DirectoryUnusable, Ensured, Leftover, NoRoom

ENTRIES_A_PASS: Final = 10_000
"""How much one removal pass deletes, a directory itself included."""


@dataclass(slots=True)
class _Made:
    """A directory as it is."""

    inode: int
    mode: int
    group: str | int | None = None
    label: str | None = None
    files: dict[str, File] = field(default_factory=dict)
    litter: int = 0
    obstacle: str | None = None


@dataclass(slots=True)
class _Base:
    """A base directory as it is."""

    present: dict[AllocationId, _Made] = field(default_factory=dict)
    gone: list[tuple[AllocationId, _Made]] = field(default_factory=list)
    strangers: set[str] = field(default_factory=set)


class MemorySockets:
    """The port :class:`~domain.ports.sockets.SocketDirectories`, in a dictionary.

    ``asked`` names each call in order with its path: ``make /run/memif/<id>``, ``look /run/memif``.  A base directory
    that was never opened, or was wiped, is made by the first call that needs it, as on a real node.
    """

    def __init__(self, clock: Clock, *, entries_a_pass: int = ENTRIES_A_PASS) -> None:
        self._clock = clock
        self._entries_a_pass = entries_a_pass
        self._bases: dict[str, _Base] = {}
        self._spellings: dict[str, set[str]] = {}
        self._inodes = 0
        self._full: set[str] = set()
        self._failures: list[Exception] = []
        self.asked: list[str] = []
        self.closed = False

    def open(self, host_dir: str) -> None:
        """Open a base directory, making it if it is missing."""
        self._ask("open", host_dir)
        self._base(host_dir)

    def make(self, directory: Directory) -> int:
        """Make a new directory or nothing."""
        self._ask("make", directory.path)
        _must_be_id(directory)
        if directory.id in self._base(directory.host_dir).present:
            raise DirectoryUnusable(f"cannot make {directory.path}: it exists already and is never taken over")
        return self._make(directory)

    def ensure(self, directory: Directory) -> Ensured:
        """Make a directory if it is missing, else mend it in place."""
        self._ask("ensure", directory.path)
        _must_be_id(directory)
        base = self._base(directory.host_dir)
        if directory.id in base.strangers:
            raise DirectoryUnusable(f"cannot mend {directory.path}: something that is no directory lies in its place")
        made = base.present.get(directory.id)
        if made is None:
            return Ensured(inode=self._make(directory), made=True)
        return Ensured(inode=made.inode, mended=_mend(made, directory))

    def differences(self, directory: Directory) -> tuple[str, ...]:
        """Say in what group, mode and label are not as they must be; an owner there is none."""
        self._ask("differences", directory.path)
        base = self._bases.get(directory.host_dir)
        made = base.present.get(directory.id) if base is not None else None
        return () if made is None else _differences(made, directory.rules)

    def read(self, directory: Directory, name: str) -> str | None:
        """Return a file of a directory; ``None`` for anything else."""
        self._note("read", f"{directory.path}/{name}")
        base = self._bases.get(directory.host_dir)
        made = base.present.get(directory.id) if base is not None else None
        file = made.files.get(name) if made is not None else None
        return None if file is None else file.content

    def remove(self, directory: Directory) -> Leftover:
        """Take a directory out of sight and delete it, or go on with deleting it."""
        self._note("remove", directory.path)
        if not is_allocation_id(directory.id):
            return Leftover(obstacle=f"{directory.id!r} is not the id of an allocation; nothing was touched")
        base = self._bases.get(directory.host_dir)
        if base is None:
            return Leftover()
        made = base.present.pop(directory.id, None)
        if made is not None:
            base.gone.append((directory.id, made))
        base.strangers.discard(directory.id)
        return self._delete(base, directory.id)

    def resume(self, host_dir: str) -> Leftover:
        """Go on with every unfinished deletion."""
        self._note("resume", host_dir)
        base = self._bases.get(host_dir)
        return Leftover() if base is None else self._delete(base, None)

    def look(self, host_dir: str) -> DirectoryView:
        """Return what lies in a base directory."""
        began = self._clock.monotonic()
        self._ask("look", host_dir)
        base = self._base(host_dir)
        return DirectoryView(
            began=began,
            host_dir=host_dir,
            spellings=frozenset({host_dir} | self._spellings.get(host_dir, set())),
            inodes={name: made.inode for name, made in base.present.items()},
            strangers=frozenset(base.strangers),
        )

    def close(self) -> None:
        """Remember that everything was closed; closing twice is fine."""
        self.closed = True

    def _note(self, what: str, path: str) -> None:
        self.asked.append(f"{what} {path}")

    def _ask(self, what: str, path: str) -> None:
        self._note(what, path)
        if self._failures:
            raise self._failures.pop(0)

    def _base(self, host_dir: str) -> _Base:
        return self._bases.setdefault(host_dir, _Base())

    def _make(self, directory: Directory) -> int:
        base = self._base(directory.host_dir)
        if directory.host_dir in self._full:
            largest = max(base.present, key=lambda name: base.present[name].litter, default=None)
            named = "no allocation directory uses it" if largest is None else f"the largest directory is {largest}"
            raise NoRoom(f"the file system of {directory.host_dir} is full; {named}")
        made = _Made(inode=self._next_inode(), mode=0)
        _mend(made, directory)
        base.present[directory.id] = made
        return made.inode

    def _next_inode(self) -> int:
        self._inodes += 1
        return self._inodes

    def _delete(self, base: _Base, allocation: AllocationId | None) -> Leftover:
        left, more, obstacle = self._entries_a_pass, False, None
        kept = []
        for name, made in base.gone:
            if allocation not in {None, name}:
                kept.append((name, made))
                continue
            entries = min(left, made.litter)
            made.litter -= entries
            left -= entries
            if made.obstacle is not None:
                obstacle = obstacle or made.obstacle
                kept.append((name, made))
            elif made.litter or not left:
                more = True
                kept.append((name, made))
            else:
                left -= 1
        base.gone = kept
        waiting = frozenset(name for name, _ in kept if allocation in {None, name})
        return Leftover(more=more, obstacle=obstacle, left=waiting)

    # -- levers: what others do to the disk --------------------------------------------------------------------

    def fail_next(self, error: Exception | None = None) -> None:
        """Let the next call that can fail (open, make, ensure, look) fail once; called twice, the next two."""
        self._failures.append(error or DirectoryUnusable("the file system is read-only, as it was told to be"))

    def wipe(self, host_dir: str | None = None) -> None:
        """Lose a base directory with all that is in it, or all of them, as a reboot does on tmpfs."""
        for each in [host_dir] if host_dir is not None else list(self._bases):
            self._bases.pop(each, None)

    def replace(self, directory: Directory) -> int:
        """Put a bare directory in place, mode 0755, as a runtime does for a missing mount source; return its inode."""
        made = _Made(inode=self._next_inode(), mode=0o755)
        self._base(directory.host_dir).present[directory.id] = made
        return made.inode

    def fill(self, host_dir: str) -> None:
        """Use up the space of a base directory."""
        self._full.add(host_dir)

    def free(self, host_dir: str) -> None:
        """Give the space back."""
        self._full.discard(host_dir)

    def put(self, directory: Directory, name: str, content: str) -> None:
        """Let a tenant write a file, over ours too."""
        self._existing(directory).files[name] = File(name=name, content=content, mode=0o644)

    def litter(self, directory: Directory, entries: int) -> None:
        """Let a tenant leave so many more entries in a directory."""
        self._existing(directory).litter += entries

    def obstruct(self, directory: Directory, why: str = "a mount point is in it; unmount it") -> None:
        """Let something in a directory resist removal, now or when it waits for its deletion."""
        for made in self._every(directory):
            made.obstacle = why

    def clear(self, directory: Directory) -> None:
        """Take away what resists removal."""
        for made in self._every(directory):
            made.obstacle = None

    def add_stranger(self, host_dir: str, name: str) -> None:
        """Put something into a base directory that is no allocation's directory."""
        self._base(host_dir).strangers.add(name)

    def also_spelled(self, host_dir: str, spelling: str) -> None:
        """Let a base directory have another path, as symbolic links in its parents do."""
        self._spellings.setdefault(host_dir, set()).add(spelling)

    def chmod(self, directory: Directory, mode: int) -> None:
        """Let somebody change the permission bits of a directory."""
        self._existing(directory).mode = mode

    def exists(self, directory: Directory) -> bool:
        """Tell whether a directory is there, without asking through the port."""
        base = self._bases.get(directory.host_dir)
        return base is not None and directory.id in base.present

    def waiting(self, host_dir: str) -> Counter[AllocationId]:
        """Return how many directories wait for their deletion, by allocation."""
        base = self._bases.get(host_dir)
        return Counter(name for name, _ in base.gone) if base is not None else Counter()

    def mode(self, directory: Directory) -> int:
        """Return the permission bits of a directory."""
        return self._existing(directory).mode

    def rules(self, directory: Directory) -> DirectoryRules:
        """Return mode, group and label of a directory, as its rules would have to be."""
        made = self._existing(directory)
        return DirectoryRules(mode=made.mode, group=made.group, selinux_label=made.label or "none")

    def _existing(self, directory: Directory) -> _Made:
        return self._base(directory.host_dir).present[directory.id]

    def _every(self, directory: Directory) -> list[_Made]:
        base = self._base(directory.host_dir)
        present = base.present.get(directory.id)
        waiting = [made for name, made in base.gone if name == directory.id]
        return waiting if present is None else [present, *waiting]


def _differences(made: _Made, rules: DirectoryRules) -> tuple[str, ...]:
    label = rules.selinux_label
    pairs = (
        (f"group {made.group}", f"{rules.group}", made.group == rules.group),
        (f"mode {made.mode:04o}", f"{rules.mode:04o}", made.mode == rules.mode),
        (f"label {made.label or 'none'}", label, label in {"auto", "none", made.label}),
    )
    return tuple(f"{before} -> {after}" for before, after, same in pairs if not same)


def _mend(made: _Made, directory: Directory) -> tuple[str, ...]:
    """Make a directory as its rules say and return what was changed, in words."""
    rules = directory.rules
    changed = list(_differences(made, rules))
    made.group, made.mode = rules.group, rules.mode
    if rules.selinux_label not in {"auto", "none"}:
        made.label = rules.selinux_label
    for file in directory.files:
        found = made.files.get(file.name)
        if found is None or found.content != file.content:
            changed.append(f"file {file.name} written")
        elif found.mode != file.mode:
            changed.append(f"file {file.name}: mode {found.mode:04o} -> {file.mode:04o}")
        made.files[file.name] = file
    return tuple(changed)


def _must_be_id(directory: Directory) -> None:
    if not is_allocation_id(directory.id):
        raise DirectoryUnusable(f"{directory.id!r} is not the id of an allocation; nothing was touched")
