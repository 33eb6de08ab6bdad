"""What every reader of the kubelet's checkpoint must do for its port."""

from dataclasses import replace
from typing import Protocol

from domain.answer import Answer, Mount
from domain.evidence import CheckpointEntry, CheckpointView, Unknown
from domain.identity import DeviceId, PodUid
from domain.ports.checkpoint import Checkpoint
from domain.resource import ResourceName

ID = "bcdfghjklmnpqrstvwxz"
SECRET = "Geheim0123456789"


def an_entry(
    container: str = "a",
    *,
    uid: str = "uid-1",
    resource: str = "contivpp.io/memif",
    devices: tuple[str, ...] = ("x/1",),
) -> CheckpointEntry:
    """Return an entry with an answer of ours."""
    host_dir = f"/var/run/contiv/memif/{ID}"
    return CheckpointEntry(
        uid=PodUid(uid),
        container=container,
        resource=ResourceName(resource),
        devices=tuple(map(DeviceId, devices)),
        answer=Answer(
            envs={"MEMIF_SOCKET": "/run/vpp/memif.sock", "MEMIF_SECRET": SECRET},
            mounts=(Mount(host_path=host_dir, container_path="/run/vpp"),),
            annotations={
                "io.contivpp.memif.socket.host": f"{host_dir}/memif.sock",
                "io.contivpp.memif.socket.container": "/run/vpp/memif.sock",
                "io.contivpp.memif.secret": SECRET,
            },
        ),
    )


class Stage(Protocol):
    """A checkpoint behind its reader, with levers that do not go through the port.  It begins without entries."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The reader under test."""
        ...

    def write(self, *entries: CheckpointEntry) -> None:
        """Let the kubelet write the file, with these entries and no others."""
        ...

    def lose(self) -> None:
        """Take the file away."""
        ...

    def advance(self, seconds: float) -> None:
        """Let time pass on the clock that the reader was given."""
        ...

    def monotonic(self) -> float:
        """Return the time of that clock."""
        ...


def _entries(stage: Stage) -> tuple[CheckpointEntry, ...]:
    view = stage.checkpoint.read()
    assert isinstance(view, CheckpointView), view
    return view.entries


class CheckpointContract:
    """Subclass it and give a fixture ``stage``."""

    def test_a_record_without_entries_is_known_and_empty(self, stage: Stage) -> None:
        assert _entries(stage) == ()

    def test_an_entry_names_pod_container_resource_devices_and_our_answer(self, stage: Stage) -> None:
        entry = an_entry(devices=("x/1", "x/2"))
        stage.write(entry)

        (found,) = _entries(stage)

        assert found == entry
        assert found.named() == {ID}

    def test_every_container_of_every_pod_is_named(self, stage: Stage) -> None:
        """Plain init containers included, which the kubelet shows nowhere else."""
        wanted = [an_entry("setup"), an_entry("a"), an_entry("a", uid="uid-2")]
        stage.write(*wanted)

        assert list(_entries(stage)) == wanted

    def test_one_device_may_be_held_twice(self, stage: Stage) -> None:
        """The kubelet gives an init container's devices to a later container of the pod."""
        stage.write(an_entry("setup", devices=("x/7",)), an_entry("a", devices=("x/7",)))

        assert [(each.container, each.devices) for each in _entries(stage)] == [("setup", ("x/7",)), ("a", ("x/7",))]

    def test_entries_of_other_plugins_are_there_too(self, stage: Stage) -> None:
        other = replace(an_entry(resource="nvidia.com/gpu"), answer=Answer(envs={"NVIDIA_VISIBLE_DEVICES": "0"}))
        stage.write(an_entry(), other)

        assert other in _entries(stage)

    def test_it_is_read_as_it_is_now(self, stage: Stage) -> None:
        stage.write(an_entry("a"))
        before = _entries(stage)
        stage.write(an_entry("b"))
        after = _entries(stage)

        assert [each.container for each in (*before, *after)] == ["a", "b"]

    def test_what_is_written_again_unchanged_is_read_unchanged(self, stage: Stage) -> None:
        stage.write(an_entry())
        before = _entries(stage)
        stage.write(an_entry())

        assert _entries(stage) == before

    def test_a_missing_record_is_unknown_with_a_reason_and_never_an_empty_view(self, stage: Stage) -> None:
        stage.write(an_entry())
        stage.lose()

        view = stage.checkpoint.read()

        assert isinstance(view, Unknown)
        assert view.reason

    def test_a_record_that_was_missing_once_is_known_when_it_is_written_again(self, stage: Stage) -> None:
        stage.write(an_entry())
        stage.lose()
        stage.checkpoint.read()
        stage.write(an_entry())

        assert len(_entries(stage)) == 1

    def test_a_reading_began_when_it_was_asked_for_also_if_nothing_changed_since(self, stage: Stage) -> None:
        """Rules compare this time, and a reading that is repeated is as new as any."""
        stage.write(an_entry())
        began = []
        for _ in range(2):
            stage.advance(5.0)
            view = stage.checkpoint.read()
            assert isinstance(view, CheckpointView)
            began.append((view.began, stage.monotonic()))

        assert [at for at, _ in began] == [now for _, now in began]

    def test_no_secret_shows_in_a_printed_view(self, stage: Stage) -> None:
        """Views end up in log lines and assertion messages."""
        stage.write(an_entry())

        view = stage.checkpoint.read()

        assert SECRET not in repr(view)
