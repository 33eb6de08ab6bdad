"""Repair and sweep: every living allocation has its directory, and no other directory stays."""

from dataclasses import replace

import pytest

from domain.evidence import CheckpointEntry, DirectoryView, Evidence, RuntimeObject, Unknown
from domain.ledger import Ledger, Record, Standing
from domain.resync import Release, Repair, Sweep, Wait
from tests.unit.domain_values import a_base, a_pool, a_sandbox, an_entry, an_id, an_object, an_owner, numbered
from tests.unit.resync_scene import (
    BASE,
    BLIND,
    GRACE,
    LATE,
    NOBODY,
    RESOLVED,
    deeds,
    effects,
    evidence,
    ledger,
)

ONE, TWO = numbered(1, owner=an_owner()), numbered(2, owner=an_owner())
HELD = (an_object(ONE), an_object(TWO, id="c2"))
MISSING = Repair(id=ONE.id, reason="its directory is missing")
ANOTHER = Repair(id=ONE.id, reason="its directory is another than we made or mended")


def repairs(known: Ledger, *views: DirectoryView) -> list[Repair]:
    """Return what is repaired while containers hold everything."""
    return [each for each in effects(known, evidence(HELD, BLIND, directories=views)) if isinstance(each, Repair)]


class TestRepair:
    def test_a_missing_directory_is_made_again(self) -> None:
        """After a reboot the base directory is empty."""
        assert repairs(ledger(ONE), a_base()) == [MISSING]

    def test_another_directory_in_its_place_is_mended(self) -> None:
        """A runtime makes missing mount sources itself, as root with mode 0755."""
        assert repairs(ledger(ONE), a_base(inodes={ONE.id: 77})) == [ANOTHER]

    def test_the_directory_that_we_made_is_left_alone(self) -> None:
        assert repairs(ledger(ONE), a_base(ONE)) == []

    def test_one_that_this_process_has_not_made_or_mended_yet_is_mended(self) -> None:
        fresh = Ledger({ONE.id: Record(allocation=ONE, touched=0.0)})

        assert repairs(fresh, a_base(ONE)) == [ANOTHER]

    def test_only_what_needs_it_is_repaired(self) -> None:
        assert repairs(ledger(TWO, ONE), a_base(TWO)) == [MISSING]

    @pytest.mark.parametrize("standing", [Standing.RELEASING, Standing.FORCED])
    def test_what_does_not_live_needs_no_directory(self, standing: Standing) -> None:
        assert repairs(ledger(ONE, standing=standing), a_base()) == []

    def test_a_base_directory_that_cannot_be_read_is_no_reason(self) -> None:
        assert repairs(ledger(ONE)) == []

    def test_each_is_looked_for_in_the_base_directory_that_it_was_made_in(self) -> None:
        elsewhere = replace(ONE, host_dir="/var/run/earlier")

        assert repairs(ledger(elsewhere), a_base(ONE)) == []
        assert repairs(ledger(elsewhere), a_base(ONE), a_base(host_dir="/var/run/earlier")) == [MISSING]

    @pytest.mark.parametrize("runtime, checkpoint", [(BLIND, BLIND), (BLIND, ()), ((), BLIND)])
    def test_it_needs_no_view_of_anything_else(
        self, runtime: Unknown | tuple[()], checkpoint: Unknown | tuple[()]
    ) -> None:
        seen = evidence(runtime, checkpoint, runtime_began=0.0, checkpoint_began=0.0, directories=[a_base()])

        assert MISSING in effects(ledger(ONE), seen)


PATH = ONE.directory.path
SEEN_EARLY = {PATH: LATE - GRACE}


def orphan(
    runtime: tuple[RuntimeObject, ...] | Unknown = (),
    checkpoint: tuple[CheckpointEntry, ...] | Unknown = (),
    *,
    runtime_began: float = LATE,
    checkpoint_began: float = LATE,
    doubted: bool = False,
    first_seen: dict[str, float] | None = None,
) -> Evidence:
    """Return what is seen of a directory that the ledger does not know."""
    return evidence(
        runtime,
        checkpoint,
        runtime_began=runtime_began,
        checkpoint_began=checkpoint_began,
        directories=[a_base(ONE, spellings=frozenset({BASE, RESOLVED}))],
        doubted=doubted,
        first_seen=SEEN_EARLY if first_seen is None else first_seen,
    )


class TestSweep:
    SWEPT = (Sweep(host_dir=BASE, id=ONE.id, reason="nobody knows this directory"),)
    YOUNG = (Wait(id=ONE.id, reason="unknown directory, grace 30s"),)

    def test_what_nobody_knows_goes_a_grace_period_after_it_was_first_seen(self) -> None:
        assert effects(Ledger(), orphan()) == self.SWEPT

    @pytest.mark.parametrize(
        "seen",
        [
            orphan(runtime_began=LATE - 0.001),
            orphan(checkpoint_began=LATE - 0.001),
            orphan(first_seen={PATH: LATE - GRACE + 0.001}),
            orphan(first_seen={}),
            orphan(first_seen={TWO.directory.path: 0.0}),
            orphan(first_seen={f"{RESOLVED}/{ONE.id}": 0.0}),
        ],
    )
    def test_not_before_both_readings_began_that_late(self, seen: Evidence) -> None:
        """The directory's own times do not count: they are the tenant's to set."""
        assert effects(Ledger(), seen) == self.YOUNG

    @pytest.mark.parametrize(
        "seen, reason",
        [
            (orphan(BLIND), "runtime view unknown: connection refused"),
            (orphan(checkpoint=BLIND), "checkpoint view unknown: connection refused"),
            (orphan(doubted=True), "the runtime shows no pod and the kubelet does not confirm it"),
        ],
    )
    def test_not_while_a_view_is_unknown_or_doubted(self, seen: Evidence, reason: str) -> None:
        assert Wait(id=ONE.id, reason=reason) in effects(Ledger(), seen)
        assert not [each for each in effects(Ledger(), seen) if isinstance(each, Sweep)]

    @pytest.mark.parametrize(
        "seen",
        [
            orphan((an_object(ONE),)),
            orphan((an_object(mounts={"/run/vpp": f"{RESOLVED}/{ONE.id}/deeper"}),)),
            orphan((an_object(claimed={"io.contivpp.memif.socket.host": ONE.host_socket}),)),
            orphan((a_sandbox(),), (an_entry(ONE, resource="example.com/renamed"),)),
        ],
    )
    def test_not_while_something_uses_it(self, seen: Evidence) -> None:
        assert deeds(Ledger(), seen) == []

    @pytest.mark.parametrize("standing", Standing)
    def test_not_what_the_ledger_knows_however_it_stands(self, standing: Standing) -> None:
        known = ledger(ONE, touched=LATE, standing=standing)

        assert not [each for each in effects(known, orphan()) if isinstance(each, Sweep)]

    def test_not_what_the_ledger_knows_from_another_base_directory(self) -> None:
        elsewhere = ledger(replace(ONE, host_dir="/var/run/earlier"), touched=LATE)

        assert deeds(elsewhere, orphan()) == []

    def test_strangers_are_left_alone(self) -> None:
        base = a_base(strangers=frozenset({"lost+found", "README", "UPPERCASEUPPERCASEUP"}))

        assert effects(Ledger(), evidence(directories=[base])) == ()

    def test_each_base_directory_is_swept_by_itself(self) -> None:
        fast = a_base(host_dir="/var/run/fast", inodes={an_id(8): 8, an_id(9): 9})
        seen = evidence(directories=[a_base(ONE), fast], first_seen={**SEEN_EARLY, f"/var/run/fast/{an_id(8)}": 0.0})

        assert effects(Ledger(), seen, (a_pool(), a_pool(host_dir="/var/run/fast"))) == (
            *self.SWEPT,
            Sweep(host_dir="/var/run/fast", id=an_id(8), reason="nobody knows this directory"),
            Wait(id=an_id(9), reason="unknown directory, grace 30s"),
        )

    def test_what_is_released_at_the_same_time_is_not_swept_as_well(self) -> None:
        assert deeds(ledger(ONE), orphan()) == [Release(id=ONE.id, reason=NOBODY)]
