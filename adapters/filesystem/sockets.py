"""The directories of memif control sockets on a real file system."""

import os
import secrets
import stat
import time
from collections.abc import Callable
from contextlib import suppress

from adapters.filesystem import attributes, files, names, room, tree
from adapters.filesystem.attributes import Attributes
from adapters.filesystem.base import Base, open_base
from adapters.filesystem.errors import in_our_words, obstacle
from adapters.filesystem.labels import Labels, SelinuxLabels
from adapters.filesystem.removal import Limits, Pass
from domain.allocation import Directory
from domain.evidence import DirectoryView
from domain.identity import AllocationId, is_allocation_id
from domain.ports.sockets import DirectoryUnusable, Ensured, Leftover


def _random() -> str:
    return secrets.token_hex(8)


class FileSystemSockets:
    """Keeps :class:`domain.ports.sockets.SocketDirectories`; not for several threads at once.

    A base directory need not be opened beforehand: an allocation may live in one that is not configured any more.
    """

    def __init__(
        self,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        labels: Labels | None = None,
        limits: Limits | None = None,
        random: Callable[[], str] = _random,
    ) -> None:
        """Make the adapter; nothing is touched yet.

        Args:
            monotonic: seconds, as the rules use them.
            labels: how SELinux labels are set.
            limits: of one removal pass.
            random: draws 16 hex digits for names that must not exist yet.
        """
        self._monotonic = monotonic
        self._labels: Labels = labels if labels is not None else SelinuxLabels()
        self._limits = limits if limits is not None else Limits()
        self._random = random
        self._bases: dict[str, Base] = {}
        self._stuck: set[str] = set()

    def open(self, host_dir: str) -> None:
        """Open a base directory, or look again whether an open one can still be used."""
        self._made_base(host_dir).check_writable()

    def make(self, directory: Directory) -> int:
        """Make a new directory or nothing."""
        base, wanted = self._prepared(directory)
        return self._make(base, directory, wanted)

    def ensure(self, directory: Directory) -> Ensured:
        """Make a directory if it is missing, else mend it in place."""
        base, wanted = self._prepared(directory)
        path = directory.path
        with in_our_words("cannot mend", path, room=lambda: room.largest(base)):
            try:
                fd = tree.enter(base.fd, directory.id)
            except FileNotFoundError:
                return Ensured(inode=self._make(base, directory, wanted), made=True)
            try:
                mended = list(attributes.settle(fd, wanted, self._labels, path))
                for file in directory.files:
                    mended += files.ensure(
                        fd, file, temporary=self._temporary(), wanted=wanted, labels=self._labels, path=path
                    )
                return Ensured(inode=os.fstat(fd).st_ino, mended=tuple(mended))
            finally:
                os.close(fd)

    def differences(self, directory: Directory) -> tuple[str, ...]:
        """Say in what owner, group, mode and label are not as they must be, at the price of a look or two."""
        base = self._base(directory.host_dir, create=False)
        if base is None or not is_allocation_id(directory.id):
            return ()
        with in_our_words("cannot examine", directory.path):
            try:
                found = os.stat(directory.id, dir_fd=base.fd, follow_symlinks=False)
                if not stat.S_ISDIR(found.st_mode):
                    return ()
                place = f"/proc/self/fd/{base.fd}/{directory.id}"
                label = self._labels.difference(place, directory.rules.selinux_label)
            except FileNotFoundError:
                return ()
        told = attributes.differences(found, attributes.of(directory))
        return told if label is None else (*told, label)

    def read(self, directory: Directory, name: str) -> str | None:
        """Return a small regular text file; ``None`` for anything else."""
        base = self._base(directory.host_dir, create=False)
        if base is None or not is_allocation_id(directory.id):
            return None
        with in_our_words("cannot read", f"{directory.path}/{name}"):
            try:
                with tree.entered(base.fd, directory.id) as fd:
                    content = files.read(fd, name)
                return None if content is None else content.decode()
            except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
                return None  # a symlink in the directory's place is no directory either

    def remove(self, directory: Directory) -> Leftover:
        """Rename a directory out of the way and delete it, or go on with deleting it."""
        if not is_allocation_id(directory.id):
            return Leftover(obstacle=_not_an_id(directory))
        try:
            base = self._base(directory.host_dir, create=False)
        except DirectoryUnusable as error:
            return Leftover(obstacle=str(error))
        if base is None:
            return Leftover()
        blocked = None
        try:
            away = names.gone(directory.id, self._random())
            os.rename(directory.id, away, src_dir_fd=base.fd, dst_dir_fd=base.fd)
        except FileNotFoundError:
            pass  # never there, or renamed by an earlier pass
        except OSError as error:
            blocked = obstacle(directory.path, error)
        left = self._delete(base, directory.id)
        if blocked is None:
            return left
        return Leftover(more=left.more, obstacle=blocked, left=frozenset({directory.id}))

    def resume(self, host_dir: str) -> Leftover:
        """Go on with the deletion of everything that was renamed out of the way."""
        try:
            base = self._base(host_dir, create=False)
        except DirectoryUnusable as error:
            return Leftover(obstacle=str(error))
        return Leftover() if base is None else self._delete(base, None)

    def look(self, host_dir: str) -> DirectoryView:
        """Return what lies in a base directory, which is made if it is missing."""
        began = self._monotonic()
        base = self._made_base(host_dir)
        inodes: dict[AllocationId, int] = {}
        strangers = set()
        with in_our_words("cannot list", host_dir), os.scandir(base.fd) as found:
            for entry in found:
                if names.gone_allocation(entry.name) is not None:
                    continue
                try:
                    # Not the inode that the listing gives: on a mount point that is what lies underneath.
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if is_allocation_id(entry.name) and stat.S_ISDIR(status.st_mode):
                    inodes[AllocationId(entry.name)] = status.st_ino
                else:
                    strangers.add(names.shown(entry.name))
        return DirectoryView(
            began=began,
            host_dir=host_dir,
            spellings=base.spellings,
            inodes=inodes,
            strangers=frozenset(strangers),
        )

    def close(self) -> None:
        """Close every descriptor; closing twice is fine."""
        while self._bases:
            _, base = self._bases.popitem()
            base.close()

    def _base(self, host_dir: str, *, create: bool) -> Base | None:
        """Return an open base directory, opened anew if its path leads elsewhere by now."""
        base = self._bases.get(host_dir)
        if base is not None:
            if base.is_current():
                return base
            del self._bases[host_dir]
            base.close()
        base = open_base(host_dir, create=create)
        if base is not None:
            self._bases[host_dir] = base
        return base

    def _made_base(self, host_dir: str) -> Base:
        base = self._base(host_dir, create=True)
        if base is None:
            raise DirectoryUnusable(f"{host_dir} vanished while it was opened; somebody removes it")
        return base

    def _prepared(self, directory: Directory) -> tuple[Base, Attributes]:
        if not is_allocation_id(directory.id):
            raise DirectoryUnusable(_not_an_id(directory))
        return self._made_base(directory.host_dir), attributes.of(directory)

    def _temporary(self) -> str:
        return names.unfinished(self._random())

    def _make(self, base: Base, directory: Directory, wanted: Attributes) -> int:
        path = directory.path
        with in_our_words("cannot make", path, room=lambda: room.largest(base)):
            room.check(base)
            os.mkdir(directory.id, 0o700, dir_fd=base.fd)
            written: list[str] = []
            fd = None
            try:
                fd = tree.enter(base.fd, directory.id)
                attributes.settle(fd, wanted, self._labels, path)
                for file in directory.files:
                    files.write(fd, file, temporary=self._temporary(), wanted=wanted, labels=self._labels, path=path)
                    written.append(file.name)
                return os.fstat(fd).st_ino
            except BaseException:
                # Without opening anything: descriptors may be what we have run out of.
                with suppress(OSError):
                    for name in written:
                        os.unlink(name, dir_fd=fd)
                    os.rmdir(directory.id, dir_fd=base.fd)
                raise
            finally:
                if fd is not None:
                    os.close(fd)

    def _delete(self, base: Base, allocation: AllocationId | None) -> Leftover:
        """Make one pass over what waits for its deletion, of one allocation or of all."""
        waiting = []
        try:
            with os.scandir(base.fd) as found:
                for entry in found:
                    owner = names.gone_allocation(entry.name)
                    if owner is not None and allocation in {None, owner}:
                        waiting.append((entry.name, entry.is_dir(follow_symlinks=False)))
        except OSError as error:
            return Leftover(obstacle=obstacle(base.host_dir, error))
        # What was stuck last time comes last, so that it cannot use up the whole pass again.
        waiting.sort(key=lambda each: (each[0] in self._stuck, each[0]))
        one = Pass(base, self._limits, monotonic=self._monotonic, random=self._random)
        more, obstructed = one(waiting)
        self._stuck = (self._stuck - {name for name, _ in waiting}) | one.stuck
        owners = (names.gone_allocation(name) for name in one.left)
        return Leftover(
            more=more,
            obstacle=obstructed,
            left=frozenset(AllocationId(owner) for owner in owners if owner is not None),
        )


def _not_an_id(directory: Directory) -> str:
    return f"{names.shown(directory.id)} is not the id of an allocation; nothing in {directory.host_dir} was touched"
