"""What keeps an allocation, and when one that nothing keeps is released."""

import pytest

from domain.allocation import Owner
from domain.evidence import Evidence, ObjectKind, ObjectState, RuntimeObject, Unknown
from domain.ledger import Standing
from domain.resync import Release, Wait
from tests.unit.domain_values import a_base, a_sandbox, an_entry, an_object, an_owner, numbered
from tests.unit.resync_scene import BASE, BLIND, GRACE, LATE, NOBODY, POOL, RESOLVED, deeds, effects, evidence, ledger

ONE, TWO = numbered(1, owner=an_owner()), numbered(2, owner=an_owner())
LIVES = ledger(ONE)
GONE = (Release(id=ONE.id, reason=NOBODY),)
PATH = ONE.directory.path


class TestBothViews:
    """Release takes two views that are known, and neither names the allocation."""

    def test_what_neither_view_names_is_released(self) -> None:
        assert effects(LIVES, evidence()) == GONE

    def test_each_allocation_is_judged_by_itself(self) -> None:
        seen = evidence([an_object(TWO, id="c2")])

        assert effects(ledger(ONE, TWO), seen) == (*GONE, Wait(id=TWO.id, reason="container:c2"))

    def test_the_kubelets_record_alone_keeps_it(self) -> None:
        """The container does not exist yet, or the kubelet will mount it once more."""
        seen = evidence([a_sandbox()], [an_entry(ONE)])

        assert effects(LIVES, seen) == (Wait(id=ONE.id, reason="checkpoint"),)

    def test_a_container_alone_keeps_it(self) -> None:
        """The kubelet forgets a pod that was deleted by force while its containers still run."""
        assert effects(LIVES, evidence([an_object(ONE, id="c1")])) == (Wait(id=ONE.id, reason="container:c1"),)

    @pytest.mark.parametrize(
        "runtime, checkpoint, reason",
        [
            (BLIND, (), "runtime view unknown: connection refused"),
            ((), BLIND, "checkpoint view unknown: connection refused"),
            (BLIND, BLIND, "runtime view unknown: connection refused"),
        ],
    )
    def test_an_unknown_view_releases_nothing(
        self, runtime: tuple[()] | Unknown, checkpoint: tuple[()] | Unknown, reason: str
    ) -> None:
        assert Wait(id=ONE.id, reason=reason) in effects(LIVES, evidence(runtime, checkpoint))
        assert not [each for each in effects(LIVES, evidence(runtime, checkpoint)) if isinstance(each, Release)]

    def test_an_empty_runtime_that_is_doubted_releases_nothing(self) -> None:
        """A runtime that just started, or another than the kubelet's, shows nothing too."""
        (wait,) = effects(LIVES, evidence(doubted=True))

        assert wait == Wait(id=ONE.id, reason="the runtime shows no pod and the kubelet does not confirm it")

    def test_an_empty_runtime_that_is_confirmed_releases(self) -> None:
        assert effects(LIVES, evidence(doubted=False)) == GONE

    def test_a_newer_grant_of_the_same_device_releases_nothing(self) -> None:
        """An init container's device goes to a later container of its pod before either starts."""
        newer = numbered(2, devices=ONE.devices, owner=an_owner())
        seen = evidence([an_object(ONE)], [an_entry(newer)])

        assert deeds(ledger(ONE, newer), seen) == []


class TestGrace:
    """Both readings must have begun a grace period after the allocation was touched."""

    @pytest.mark.parametrize(
        "runtime_began, checkpoint_began, released",
        [
            (GRACE, GRACE, True),
            (GRACE - 0.001, GRACE, False),
            (GRACE, GRACE - 0.001, False),
            (0.0, LATE, False),
            (LATE, 0.0, False),
        ],
    )
    def test_the_earlier_reading_counts(self, runtime_began: float, checkpoint_began: float, *, released: bool) -> None:
        seen = evidence(runtime_began=runtime_began, checkpoint_began=checkpoint_began)

        assert effects(LIVES, seen) == (GONE if released else (Wait(id=ONE.id, reason="grace 30s"),))

    @pytest.mark.parametrize("touched, released", [(LATE - GRACE, True), (LATE - GRACE + 0.001, False), (LATE, False)])
    def test_it_counts_from_the_last_touch(self, touched: float, *, released: bool) -> None:
        assert (deeds(ledger(ONE, touched=touched), evidence()) == list(GONE)) is released

    def test_a_starting_container_begins_it_anew(self) -> None:
        touched = LIVES.touched((ONE.id,), at=LATE)

        assert deeds(touched, evidence(runtime_began=LATE + GRACE - 1, checkpoint_began=LATE + GRACE - 1)) == []
        assert deeds(touched, evidence(runtime_began=LATE + GRACE, checkpoint_began=LATE + GRACE)) == list(GONE)

    def test_a_holder_outweighs_it(self) -> None:
        assert effects(LIVES, evidence([an_object(ONE, id="c1")], runtime_began=0.0)) == (
            Wait(id=ONE.id, reason="container:c1"),
        )


class TestWhatKeeps:
    """A container keeps what it mounts or carries, whatever else is unknown of it."""

    @pytest.mark.parametrize("state", ObjectState)
    def test_a_container_in_any_state_that_exists(self, state: ObjectState) -> None:
        assert deeds(LIVES, evidence([an_object(ONE, state=state)])) == []

    @pytest.mark.parametrize("base", [BASE, RESOLVED])
    def test_a_mount_in_either_spelling_of_the_base_directory(self, base: str) -> None:
        """The parents of the base may be symlinks, as ``/var/run`` is."""
        view = a_base(ONE, spellings=frozenset({BASE, RESOLVED}))
        seen = evidence([an_object(mounts={"/run/vpp": f"{base}/{ONE.id}"})], directories=[view])

        assert deeds(LIVES, seen) == []

    @pytest.mark.parametrize("below", ["", "/", "/memif.sock", "/a/b/c"])
    def test_a_mount_of_the_directory_or_of_something_in_it(self, below: str) -> None:
        assert deeds(LIVES, evidence([an_object(mounts={"/anywhere": f"{PATH}{below}"})])) == []

    def test_the_mount_of_a_container_without_a_uid(self) -> None:
        stray = an_object(mounts={"/run/vpp": PATH}, uid=None, namespace=None, name=None, container=None)

        assert deeds(LIVES, evidence([stray])) == []

    def test_any_one_of_several_mounts(self) -> None:
        mounts = {"/etc/hosts": "/var/lib/kubelet/hosts", "/run/vpp": PATH, "/dev/log": "/dev/log"}

        assert deeds(LIVES, evidence([an_object(mounts=mounts)])) == []

    @pytest.mark.parametrize("key", ["io.contivpp.memif.socket.host", "io.contivpp.memif.anything"])
    def test_what_a_container_carries(self, key: str) -> None:
        """A list call that shows no mounts shows annotations; tenants can write some, so they keep and no more."""
        assert deeds(LIVES, evidence([an_object(claimed={key: f"{PATH}/memif.sock"}, uid=None)])) == []

    def test_the_record_of_a_resource_that_is_no_pools_any_more(self) -> None:
        """The pool was renamed, or Contiv's agent offered another resource in the same directory."""
        entry = an_entry(ONE, resource="example.com/renamed")

        assert effects(LIVES, evidence([a_sandbox()], [entry])) == (Wait(id=ONE.id, reason="checkpoint"),)

    def test_a_mount_of_a_directory_that_no_pool_uses_any_more_and_that_cannot_be_read(self) -> None:
        """An allocation keeps the base directory that it was made with."""
        moved = numbered(1, host_dir="/var/run/earlier", owner=an_owner())

        assert deeds(ledger(moved), evidence([an_object(moved)])) == []
        assert deeds(ledger(moved), evidence([a_sandbox()], [an_entry(moved)])) == []


class TestWhatDoesNotKeep:
    @pytest.mark.parametrize(
        "seen",
        [
            a_sandbox(mounts={"/run/vpp": PATH}),
            a_sandbox(claimed={"io.contivpp.memif.socket.host": f"{PATH}/memif.sock"}),
            an_object(),
            an_object(mounts={"/run/vpp": f"/var/run/other/{ONE.id}"}),
            an_object(mounts={"/run/vpp": f"{BASE}2/{ONE.id}"}),
            an_object(mounts={"/run/vpp": f"{BASE}/sub/{ONE.id}"}),
            an_object(mounts={"/run/vpp": f"{BASE}/{ONE.id}x"}),
            an_object(mounts={"/run/vpp": f"{BASE}/{ONE.id[:-1]}"}),
            an_object(mounts={"/run/vpp": f"{BASE}/{ONE.id.upper()}"}),
            an_object(mounts={"/run/vpp": f"{BASE}{ONE.id}"}),
            an_object(mounts={"/run/vpp": BASE}),
            an_object(mounts={PATH: "/somewhere"}),
            an_object(mounts={"/run/vpp": PATH.removeprefix("/")}),
            an_object(mounts={"/run/vpp": f"/host{PATH}"}),
            an_object(claimed={PATH: ""}),
            an_object(id=PATH, container=PATH),
        ],
    )
    def test_anything_else_in_the_runtime(self, seen: RuntimeObject) -> None:
        assert deeds(LIVES, evidence([seen])) == list(GONE)

    def test_a_record_that_mounts_nothing_of_ours(self) -> None:
        seen = evidence([a_sandbox()], [an_entry(TWO)])

        assert Release(id=ONE.id, reason=NOBODY) in effects(LIVES, seen)

    def test_an_owner_with_a_living_pod(self) -> None:
        """No rule of life depends on an owner: a container without memif is no reason to keep a directory."""
        assert deeds(LIVES, evidence([a_sandbox(ONE.owner), an_object(uid=ONE.owner.uid)])) == list(GONE)


class TestStandings:
    def test_a_forced_record_is_kept_until_the_rule_drops_it(self) -> None:
        forced = ledger(ONE, standing=Standing.FORCED)

        assert effects(forced, evidence([a_sandbox()], [an_entry(ONE)])) == (Wait(id=ONE.id, reason="checkpoint"),)
        assert effects(forced, evidence(checkpoint_began=0.0)) == (Wait(id=ONE.id, reason="grace 30s"),)
        assert effects(forced, evidence()) == GONE

    @pytest.mark.parametrize("seen", [evidence(), evidence(BLIND), evidence(runtime_began=0.0), evidence(doubted=True)])
    def test_an_interrupted_release_is_finished_whatever_cannot_be_seen(self, seen: Evidence) -> None:
        """It was decided before the process died."""
        releasing = ledger(ONE, standing=Standing.RELEASING)

        assert effects(releasing, seen) == (Release(id=ONE.id, reason="its release was interrupted"),)

    def test_an_interrupted_release_is_not_finished_under_a_holder(self) -> None:
        releasing = ledger(ONE, standing=Standing.RELEASING)

        assert effects(releasing, evidence([an_object(ONE, id="c1")], BLIND)) == (
            Wait(id=ONE.id, reason="container:c1"),
            *effects(ledger(), evidence([an_object(ONE, id="c1")], BLIND)),
        )
        assert deeds(releasing, evidence(BLIND, [an_entry(ONE)])) == []

    @pytest.mark.parametrize("owner", [Owner(), an_owner()])
    def test_pending_or_bound_makes_no_difference(self, owner: Owner) -> None:
        assert effects(ledger(numbered(1, owner=owner)), evidence()) == GONE


class TestHostileText:
    """Tenants choose annotations' keys and values, and mounts' container paths."""

    @pytest.mark.parametrize(
        "value",
        ["/" * 1_000_000, f"{BASE}/" * 50_000, f"{BASE}/{'a' * 1_000_000}", "\0" * 1_000_000, "\ud800", "", "/", "//"],
        ids=lambda value: f"{value[:24]!r}-{len(value)}",
    )
    def test_a_value_of_any_size_names_nothing(self, value: str) -> None:
        assert deeds(LIVES, evidence([an_object(claimed={f"{POOL.annotation_prefix}.socket.host": value})])) == list(
            GONE
        )

    @pytest.mark.timeout(20)  # a guard: it takes a fraction of a second, and half a minute if values are taken apart
    @pytest.mark.parametrize("value", ["/" * 4096, f"{BASE}/{'a/' * 2000}", f"{ONE.id}/" * 190])
    def test_many_long_values_are_not_taken_apart(self, value: str) -> None:
        """An image may bring as many labels as its author likes, and Docker shows them as the container's."""
        claimed = {f"io.contivpp.memif.{number}": value for number in range(20_000)}

        assert deeds(LIVES, evidence([an_object(claimed=claimed)])) == list(GONE)

    def test_a_kind_that_is_no_sandbox_is_needed_to_keep(self) -> None:
        assert {kind for kind in ObjectKind if not deeds(LIVES, evidence([an_object(ONE, kind=kind)]))} == {
            ObjectKind.CONTAINER
        }
