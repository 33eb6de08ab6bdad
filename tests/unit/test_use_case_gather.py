"""Gathering: what a reconcile goes by."""

import pytest

from app.settings import PoolSettings
from domain.evidence import CheckpointView, RuntimeView, Unknown
from domain.ports.journal import JournalUnusable
from domain.ports.sockets import DirectoryUnusable, NoRoom
from tests.unit.house import FAST, HOST_DIR, INTERVAL, OTHER, STRANGE_ID, House, a_directory, dev


@pytest.fixture
async def house() -> House:
    house = await House().recover()
    house.clock.advance(INTERVAL)
    return house


class TestTheViews:
    async def test_both_are_read_and_remembered(self, house: House) -> None:
        house.another_pod_runs()
        gathered = await house.container.gather()()

        evidence = gathered.evidence
        assert isinstance(evidence.runtime, RuntimeView)
        assert isinstance(evidence.checkpoint, CheckpointView)
        assert (house.state.runtime, house.state.checkpoint) == (evidence.runtime, evidence.checkpoint)

    async def test_the_checkpoint_is_read_before_the_runtime(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the kubelet's record no longer names cannot be mounted any more; the other way round a container
        could appear and be forgotten between the two.
        """
        read, order = house.checkpoint.read, []

        def noting() -> CheckpointView | Unknown:
            order.append(len(house.runtime.asked))
            return read()

        monkeypatch.setattr(type(house.checkpoint), "read", lambda _: noting())
        await house.container.gather()()

        assert order == [0]
        assert len(house.runtime.asked) == 1

    async def test_a_runtime_that_does_not_answer_is_unknown_and_not_empty(self, house: House) -> None:
        house.runtime.cut("connection refused")
        gathered = await house.container.gather()()

        assert gathered.evidence.runtime == Unknown("connection refused")
        assert not gathered.listed

    async def test_every_base_directory_in_use_is_read_also_one_that_is_not_configured_any_more(self) -> None:
        before = await House(PoolSettings(host_dir="/var/run/old"), FAST).recover()
        await before.granted(dev(1))
        house = await House(PoolSettings(), FAST, after=before).recover()
        gathered = await house.container.gather()()

        assert [view.host_dir for view in gathered.evidence.directories] == [
            HOST_DIR,
            "/var/run/fast",
            "/var/run/old",
        ]

    @pytest.mark.parametrize("error", [DirectoryUnusable("it is gone"), NoRoom("it is full")])
    async def test_a_base_directory_that_cannot_be_read_is_reported_and_left_out(self, error: Exception) -> None:
        house = await House(PoolSettings(), FAST).recover()
        house.sockets.fail_next(error)
        gathered = await house.container.gather()()

        assert [view.host_dir for view in gathered.evidence.directories] == ["/var/run/fast"]
        assert house.heard.facts("a base directory cannot be read") == {"reason": str(error)}

    async def test_a_full_journal_is_no_evidence_of_anything(self, house: House) -> None:
        house.journal.fail(JournalUnusable("its disk is full"))
        await house.container.gather()()

        assert house.heard.warned == []


class TestAnEmptyRuntime:
    """One that just started, or is not the kubelet's, shows nothing too."""

    async def test_is_believed_when_the_kubelet_lists_no_pod(self, house: House) -> None:
        gathered = await house.container.gather()()

        assert house.kubelet.asked == ["List"]
        assert (gathered.evidence.empty_runtime_doubted, gathered.listed) == (False, True)

    async def test_is_doubted_when_the_kubelet_names_a_pod(self, house: House) -> None:
        house.kubelet.put("kube-system", "dns", {})
        gathered = await house.container.gather()()

        assert (gathered.evidence.empty_runtime_doubted, gathered.listed) == (True, True)

    async def test_is_doubted_when_the_kubelet_does_not_answer(self, house: House) -> None:
        """Nor does it count as having been asked to forget."""
        house.kubelet.cut()
        gathered = await house.container.gather()()

        assert (gathered.evidence.empty_runtime_doubted, gathered.listed) == (True, False)

    async def test_is_doubted_without_asking_right_after_an_allocate(self, house: House) -> None:
        """A listing then makes the kubelet choose the same ids again."""
        await house.allocate([dev(1)])
        house.clock.advance(0.1)
        gathered = await house.container.gather()()

        assert house.kubelet.asked == []
        assert (gathered.evidence.empty_runtime_doubted, gathered.listed) == (True, False)

    async def test_is_doubted_without_asking_twice_within_the_interval(self, house: House) -> None:
        await house.container.gather()()
        house.clock.advance(INTERVAL - 1)
        gathered = await house.container.gather()()

        assert house.kubelet.asked == ["List"]
        assert gathered.evidence.empty_runtime_doubted

    async def test_with_objects_of_which_none_has_a_uid_is_empty_too(self, house: House) -> None:
        """Old sandboxes of cri-dockerd show none, and containers that no kubelet started."""
        house.runtime.add_sandbox(uid=None, namespace=None, name=None)
        house.kubelet.put("kube-system", "dns", {})
        gathered = await house.container.gather()()

        assert gathered.evidence.empty_runtime_doubted

    async def test_with_any_pod_is_not_empty_and_nobody_is_asked(self, house: House) -> None:
        house.another_pod_runs()
        gathered = await house.container.gather()()

        assert house.kubelet.asked == []
        assert (gathered.evidence.empty_runtime_doubted, gathered.listed) == (False, False)


class TestUnknownDirectories:
    async def test_each_has_the_time_at_which_it_was_first_seen(self, house: House) -> None:
        """Its own times are the tenant's to set."""
        path = a_directory(STRANGE_ID).path
        house.sockets.make(a_directory(STRANGE_ID))
        first = (await house.container.gather()()).evidence.first_seen
        seen = house.clock.monotonic()
        house.clock.advance(100)
        second = (await house.container.gather()()).evidence.first_seen

        assert first == second == {path: seen}

    async def test_one_that_vanished_in_between_is_new_when_it_comes_back(self, house: House) -> None:
        house.sockets.make(a_directory(STRANGE_ID))
        await house.container.gather()()
        house.sockets.remove(a_directory(STRANGE_ID))
        await house.container.gather()()
        house.clock.advance(100)
        house.sockets.make(a_directory(STRANGE_ID))
        gathered = await house.container.gather()()

        assert gathered.evidence.first_seen == {a_directory(STRANGE_ID).path: house.clock.monotonic()}

    async def test_directories_of_allocations_are_not_among_them(self, house: House) -> None:
        await house.allocate([dev(1)])
        gathered = await house.container.gather()()

        assert gathered.evidence.first_seen == {}

    async def test_anything_else_is_left_alone_and_reported_once(self, house: House) -> None:
        house.sockets.add_stranger(HOST_DIR, "notes.txt")
        for _ in range(3):
            await house.reconcile()
        house.sockets.add_stranger(HOST_DIR, "more.txt")
        await house.reconcile()

        event = "something that is no allocation's directory lies in a base directory and is left alone"
        assert [facts for name, facts in house.heard.warnings if name == event] == [
            {"host_dir": HOST_DIR, "names": ["notes.txt"]},
            {"host_dir": HOST_DIR, "names": ["more.txt"]},
        ]
        assert house.sockets.look(HOST_DIR).strangers == {"notes.txt", "more.txt"}


async def test_the_second_pools_directories_are_seen_too() -> None:
    house = await House(PoolSettings(), FAST).recover()
    await house.allocate([dev(1, OTHER)], pool=OTHER)
    gathered = await house.container.gather()()

    assert [len(view.inodes) for view in gathered.evidence.directories] == [0, 1]
