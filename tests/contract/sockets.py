"""What every keeper of socket directories promises; subclass :class:`SocketsContract` and give it a stage."""

from dataclasses import replace
from typing import Protocol

import pytest

from domain.allocation import Directory, File
from domain.identity import AllocationId
from domain.pool import DirectoryRules
from domain.ports.sockets import DirectoryUnusable, Ensured, Leftover, NoRoom, SocketDirectories

ENTRIES_A_PASS = 20
"""Every stage bounds its removal passes to so many entries."""

ONE, TWO = AllocationId("bcdfghjklmnpqrstvwxz"), AllocationId("2456789bcdfghjklmnpq")
SECRET = File(name="secret", content="s3cr3t")


class Stage(Protocol):
    """The adapter under test, and what others do to its disk behind its back."""

    @property
    def sockets(self) -> SocketDirectories: ...
    @property
    def host_dir(self) -> str:
        """A base directory that does not exist yet."""
        ...

    def exists(self, directory: Directory) -> bool: ...
    def mode(self, directory: Directory) -> int: ...
    def waiting(self) -> int:
        """How many removed directories wait for their deletion."""
        ...

    def wipe(self) -> None:
        """Remove the base directory and all that is in it."""
        ...

    def runtime_makes(self, directory: Directory) -> int:
        """Put a bare root-owned directory of mode 0755 in place and return its inode."""
        ...

    def put(self, directory: Directory, name: str, content: str) -> None: ...
    def litter(self, directory: Directory, entries: int) -> None: ...
    def obstruct(self, directory: Directory) -> None: ...
    def clear(self, directory: Directory) -> None: ...
    def fill(self) -> None: ...
    def free(self) -> None: ...
    def add_stranger(self, name: str) -> None: ...


class SocketsContract:
    @staticmethod
    def directory(stage: Stage, name: AllocationId = ONE, *files: File, mode: int = 0o2770) -> Directory:
        return Directory(host_dir=stage.host_dir, id=name, rules=DirectoryRules(mode=mode), files=files)

    # make ----------------------------------------------------------------------------------------------------

    def test_a_made_directory_has_its_mode_and_shows_under_its_inode(self, stage: Stage) -> None:
        stage.sockets.open(stage.host_dir)

        inode = stage.sockets.make(self.directory(stage))

        assert stage.mode(self.directory(stage)) == 0o2770
        assert stage.sockets.look(stage.host_dir).inodes == {ONE: inode}

    def test_a_made_directory_holds_its_files(self, stage: Stage) -> None:
        directory = self.directory(stage, ONE, SECRET)

        stage.sockets.make(directory)

        assert stage.sockets.read(directory, "secret") == "s3cr3t"

    def test_a_directory_that_exists_is_never_taken_over_by_make(self, stage: Stage) -> None:
        directory = self.directory(stage)
        inode = stage.runtime_makes(directory)
        with pytest.raises(DirectoryUnusable, match=ONE):
            stage.sockets.make(directory)

        assert stage.mode(directory) == 0o755
        assert stage.sockets.look(stage.host_dir).inodes == {ONE: inode}

    def test_without_room_nothing_is_made_and_the_largest_directory_is_named(self, stage: Stage) -> None:
        stage.sockets.make(self.directory(stage, TWO))
        stage.litter(self.directory(stage, TWO), 5)
        stage.fill()
        with pytest.raises(NoRoom, match=f"(?s){stage.host_dir}.*largest directory is {TWO}"):
            stage.sockets.make(self.directory(stage))

        assert not stage.exists(self.directory(stage))

    def test_when_there_is_room_again_a_directory_is_made(self, stage: Stage) -> None:
        stage.fill()
        with pytest.raises(NoRoom):
            stage.sockets.make(self.directory(stage))
        stage.free()

        stage.sockets.make(self.directory(stage))

        assert stage.exists(self.directory(stage))

    @pytest.mark.parametrize("name", ["..", ".", "", "../elsewhere", "a/b", "UPPERCASE0123456789A", "short"])
    def test_what_is_not_an_id_is_refused(self, stage: Stage, name: str) -> None:
        """Contiv removed the parent of whatever string it had stored, the empty one included."""
        directory = self.directory(stage, AllocationId(name))
        stage.sockets.open(stage.host_dir)
        with pytest.raises(DirectoryUnusable):
            stage.sockets.make(directory)
        with pytest.raises(DirectoryUnusable):
            stage.sockets.ensure(directory)
        left = stage.sockets.remove(directory)

        assert left.obstacle is not None
        assert stage.sockets.read(directory, "secret") is None

    # ensure --------------------------------------------------------------------------------------------------

    def test_ensure_makes_what_is_missing(self, stage: Stage) -> None:
        directory = self.directory(stage, ONE, SECRET)

        ensured = stage.sockets.ensure(directory)

        assert ensured.made
        assert ensured.mended == ()
        assert stage.sockets.look(stage.host_dir).inodes == {ONE: ensured.inode}
        assert stage.sockets.read(directory, "secret") == "s3cr3t"

    def test_ensure_finds_nothing_to_do_after_make(self, stage: Stage) -> None:
        directory = self.directory(stage, ONE, SECRET)
        inode = stage.sockets.make(directory)

        assert stage.sockets.ensure(directory) == Ensured(inode=inode)

    def test_ensure_mends_in_place_what_a_runtime_made(self, stage: Stage) -> None:
        """A runtime makes a missing mount source itself, root's and 0755, and has it mounted by then."""
        directory = self.directory(stage, ONE, SECRET)
        inode = stage.runtime_makes(directory)

        ensured = stage.sockets.ensure(directory)

        assert ensured == Ensured(inode=inode, mended=("mode 0755 -> 2770", "file secret written"))
        assert stage.mode(directory) == 0o2770
        assert stage.sockets.read(directory, "secret") == "s3cr3t"

    def test_ensure_writes_a_file_again_that_was_changed(self, stage: Stage) -> None:
        directory = self.directory(stage, ONE, SECRET)
        stage.sockets.make(directory)
        stage.put(directory, "secret", "mine")

        ensured = stage.sockets.ensure(directory)

        assert ensured.mended == ("file secret written",)
        assert stage.sockets.read(directory, "secret") == "s3cr3t"

    def test_ensure_leaves_a_stranger_in_its_place_alone(self, stage: Stage) -> None:
        stage.add_stranger(ONE)
        with pytest.raises(DirectoryUnusable, match="lies in its place"):
            stage.sockets.ensure(self.directory(stage))

        assert ONE in stage.sockets.look(stage.host_dir).strangers

    def test_ensure_without_room_fails_only_if_something_must_be_made(self, stage: Stage) -> None:
        stage.sockets.make(self.directory(stage))
        stage.fill()
        with pytest.raises(NoRoom):
            stage.sockets.ensure(self.directory(stage, TWO))

        assert not stage.sockets.ensure(self.directory(stage)).made

    def test_no_mended_word_shows_a_files_content(self, stage: Stage) -> None:
        directory = self.directory(stage, ONE, SECRET)
        stage.runtime_makes(directory)

        assert "s3cr3t" not in repr(stage.sockets.ensure(directory))

    def test_after_the_base_was_wiped_everything_can_be_had_again(self, stage: Stage) -> None:
        """A reboot empties /run; the kubelet repeats PreStartContainer and never Allocate."""
        directory = self.directory(stage, ONE, SECRET)
        stage.sockets.open(stage.host_dir)
        stage.sockets.make(directory)
        stage.wipe()

        assert stage.sockets.ensure(directory).made
        assert stage.exists(directory)

    # read ----------------------------------------------------------------------------------------------------

    def test_reading_what_is_not_there_is_none(self, stage: Stage) -> None:
        directory = self.directory(stage)

        assert stage.sockets.read(directory, "secret") is None
        stage.sockets.make(directory)
        assert stage.sockets.read(directory, "secret") is None

    # differences ---------------------------------------------------------------------------------------------

    def test_what_is_as_it_must_be_differs_in_nothing(self, stage: Stage) -> None:
        stage.sockets.make(self.directory(stage))

        assert stage.sockets.differences(self.directory(stage)) == ()

    def test_differences_are_told_and_nothing_is_mended(self, stage: Stage) -> None:
        directory = self.directory(stage, ONE, SECRET)
        stage.runtime_makes(directory)
        for _ in range(2):
            assert stage.sockets.differences(directory) == ("mode 0755 -> 2770",)

        assert stage.mode(directory) == 0o755

    @pytest.mark.parametrize("opened", [True, False])
    def test_what_is_not_there_differs_in_nothing_and_is_not_made(self, stage: Stage, *, opened: bool) -> None:
        if opened:
            stage.sockets.open(stage.host_dir)

        assert stage.sockets.differences(self.directory(stage)) == ()
        assert not stage.exists(self.directory(stage))

    def test_a_stranger_in_its_place_is_no_directory_that_could_differ(self, stage: Stage) -> None:
        stage.add_stranger(ONE)

        assert stage.sockets.differences(self.directory(stage)) == ()

    # remove --------------------------------------------------------------------------------------------------

    def test_a_removed_directory_is_gone_with_what_was_in_it(self, stage: Stage) -> None:
        """A VPP in the pod leaves sockets and logs in its /run/vpp, on which Contiv's rmdir failed."""
        directory = self.directory(stage, ONE, SECRET)
        stage.sockets.make(directory)
        stage.litter(directory, 5)

        left = stage.sockets.remove(directory)

        assert left.done
        assert not stage.exists(directory)
        assert stage.waiting() == 0

    def test_removing_what_is_not_there_is_fine(self, stage: Stage) -> None:
        assert stage.sockets.remove(self.directory(stage)) == Leftover()
        stage.sockets.open(stage.host_dir)
        assert stage.sockets.remove(self.directory(stage)) == Leftover()

    def test_removing_one_leaves_the_others(self, stage: Stage) -> None:
        stage.sockets.make(self.directory(stage))
        stage.sockets.make(self.directory(stage, TWO))

        stage.sockets.remove(self.directory(stage))

        assert set(stage.sockets.look(stage.host_dir).inodes) == {TWO}

    def test_a_long_removal_takes_the_name_away_at_once_and_goes_on_when_repeated(self, stage: Stage) -> None:
        directory = self.directory(stage)
        stage.sockets.make(directory)
        stage.litter(directory, 2 * ENTRIES_A_PASS)

        first = stage.sockets.remove(directory)

        assert first == Leftover(more=True, left=frozenset({ONE}))
        assert not stage.exists(directory)
        assert stage.sockets.look(stage.host_dir).inodes == {}
        assert stage.waiting() == 1
        assert stage.sockets.remove(directory).more
        assert stage.sockets.remove(directory).done
        assert stage.waiting() == 0

    def test_resume_goes_on_with_everything_that_waits(self, stage: Stage) -> None:
        for name in (ONE, TWO):
            stage.sockets.make(self.directory(stage, name))
            stage.litter(self.directory(stage, name), 2 * ENTRIES_A_PASS)
            stage.sockets.remove(self.directory(stage, name))
        passes = 0
        while not stage.sockets.resume(stage.host_dir).done:
            passes += 1
            assert passes < 10

        assert stage.waiting() == 0

    def test_resume_says_of_whom_something_is_left(self, stage: Stage) -> None:
        for name, entries in ((ONE, 5 * ENTRIES_A_PASS), (TWO, 2)):
            stage.sockets.make(self.directory(stage, name))
            stage.litter(self.directory(stage, name), entries)
        stage.sockets.remove(self.directory(stage, TWO))
        stage.sockets.remove(self.directory(stage, ONE))

        assert stage.sockets.resume(stage.host_dir).left == {ONE}
        while stage.sockets.resume(stage.host_dir).left:
            assert stage.waiting() == 1
        assert stage.waiting() == 0

    def test_resume_without_anything_to_do_is_done(self, stage: Stage) -> None:
        assert stage.sockets.resume(stage.host_dir) == Leftover()
        stage.sockets.make(self.directory(stage))
        assert stage.sockets.resume(stage.host_dir) == Leftover()
        assert stage.exists(self.directory(stage))

    def test_an_obstacle_is_reported_until_it_is_gone(self, stage: Stage) -> None:
        directory = self.directory(stage)
        stage.sockets.make(directory)
        stage.obstruct(directory)

        left = stage.sockets.remove(directory)

        assert left.obstacle
        assert not left.more
        assert left.left == {ONE}
        assert not stage.exists(directory)
        assert stage.waiting() == 1
        stage.clear(directory)
        assert stage.sockets.resume(stage.host_dir).done
        assert stage.waiting() == 0

    def test_a_name_can_be_used_again_while_its_old_directory_is_still_being_deleted(self, stage: Stage) -> None:
        """A PreStartContainer that names an allocation on its way out makes it live again."""
        directory = self.directory(stage)
        old = stage.sockets.make(directory)
        stage.obstruct(directory)
        stage.sockets.remove(directory)

        again = stage.sockets.ensure(directory)

        assert again.made
        assert again.inode != old
        assert stage.waiting() == 1
        stage.clear(directory)
        assert stage.sockets.resume(stage.host_dir).done
        assert stage.exists(directory)

    # look ----------------------------------------------------------------------------------------------------

    def test_strangers_are_shown_apart_and_left_alone(self, stage: Stage) -> None:
        stage.sockets.make(self.directory(stage))
        stage.add_stranger("lost+found")

        view = stage.sockets.look(stage.host_dir)

        assert set(view.inodes) == {ONE}
        assert view.strangers == {"lost+found"}
        assert view.host_dir == stage.host_dir
        assert stage.host_dir in view.spellings

    def test_what_waits_for_its_deletion_is_no_stranger(self, stage: Stage) -> None:
        directory = self.directory(stage)
        stage.sockets.make(directory)
        stage.obstruct(directory)
        stage.sockets.remove(directory)

        view = stage.sockets.look(stage.host_dir)

        assert stage.waiting() == 1
        assert view.strangers == frozenset()
        assert view.inodes == {}

    def test_a_replaced_directory_shows_another_inode(self, stage: Stage) -> None:
        directory = self.directory(stage)
        old = stage.sockets.make(directory)
        stage.sockets.remove(directory)
        stage.sockets.make(self.directory(stage, TWO))  # so that the old number is not simply used again

        new = stage.runtime_makes(directory)

        assert new != old
        assert stage.sockets.look(stage.host_dir).inodes[ONE] == new

    # the rest ------------------------------------------------------------------------------------------------

    def test_two_bases_do_not_know_each_other(self, stage: Stage) -> None:
        here = self.directory(stage)
        there = replace(here, host_dir=f"{stage.host_dir}-other")
        stage.sockets.make(here)
        stage.sockets.make(there)

        stage.sockets.remove(there)

        assert stage.exists(here)
        assert not stage.exists(there)

    def test_closing_twice_is_fine(self, stage: Stage) -> None:
        stage.sockets.open(stage.host_dir)
        stage.sockets.close()
        stage.sockets.close()

        assert stage.sockets.look(stage.host_dir).inodes == {}
