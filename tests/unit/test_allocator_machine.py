"""The grant rule and the ledger together, driven at random and compared with a plain dictionary."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from domain.adoption import adoption
from domain.allocation import Allocation, Owner
from domain.evidence import CheckpointEntry
from domain.grant import Draw, RequestRefused, plan
from domain.identity import AllocationId, DeviceId
from domain.ledger import Ledger, Record, Standing
from domain.pool import Pool
from domain.secret import Secret
from tests.unit import domain_values as values
from tests.unit.domain_values import NOW, a_draw, an_entry, an_id

Flaw: TypeAlias = Callable[[list[list[DeviceId]]], None]

FLAWS: tuple[Flaw, ...] = (
    lambda requests: requests.clear(),
    lambda requests: requests.append([]),
    lambda requests: requests.insert(0, []),
    lambda requests: requests[-1].append(DeviceId("nobody's")),
    lambda requests: requests[0].insert(0, DeviceId("nobody's")),
    lambda requests: requests[-1].append(requests[-1][0]),
)
"""What makes requests that nothing may be granted for."""

STRANGER = an_id(10**9)
"""An id that is never drawn."""


@dataclass
class Row:
    """All that is to be said of one allocation."""

    devices: list[DeviceId]
    path: str
    secret: str
    owner: dict[str, str | None]
    standing: Standing = Standing.LIVE
    touched: float = 0.0
    inode: int | None = None


def row_of(record: Record) -> Row:
    return Row(
        devices=list(record.allocation.devices),
        path=record.allocation.host_socket,
        secret=record.allocation.secret.reveal(),
        owner=asdict(record.allocation.owner),
        standing=record.standing,
        touched=record.touched,
        inode=record.inode,
    )


def rows_of(ledger: Ledger) -> dict[AllocationId, Row]:
    return {record.allocation.id: row_of(record) for record in ledger}


class Allocator(RuleBasedStateMachine):
    """Grants, adopts, revives and drops allocations, and expects of the ledger what a dictionary would say."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.model: dict[AllocationId, Row] = {}
        self.stored: dict[AllocationId, CheckpointEntry] = {}
        self.given: dict[AllocationId, tuple[str, str]] = {}
        self.pictures: list[tuple[Ledger, dict[AllocationId, Row]]] = []
        self.drawn = 0
        self.time = 0.0

    @initialize(pool=values.pools)
    def configure(self, pool: Pool) -> None:
        self.pool = pool

    # What happens

    @rule(data=st.data())
    def grant(self, data: st.DataObject) -> None:
        requests = data.draw(values.requests(self.pool))
        draws = self.draw(len(requests))
        made = plan(self.pool, requests, self.ledger, draws, now=NOW)
        self.enter(zip(draws, requests, strict=True), Owner())
        self.change(self.ledger.with_live(made.allocations, at=self.time))
        self.store(made.allocations)

    @rule(data=st.data(), flaw=st.sampled_from(FLAWS))
    def refuse(self, data: st.DataObject, flaw: Flaw) -> None:
        """Whatever else is asked in the same call: nothing of it is granted."""
        requests = [list(request) for request in data.draw(values.requests(self.pool))]
        flaw(requests)

        with pytest.raises(RequestRefused):
            plan(self.pool, requests, self.ledger, self.draw(len(requests)), now=NOW)

    @rule(data=st.data())
    def draw_an_id_again(self, data: st.DataObject) -> None:
        if not self.model:
            return
        used = data.draw(st.sampled_from(list(self.model)))
        request = [self.pool.device(0)]

        with pytest.raises(ValueError, match="unused draw"):
            plan(self.pool, [request], self.ledger, [Draw(id=used, secret=Secret("Again" * 4))], now=NOW)

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        names = data.draw(self.names())
        for name in names:
            self.model.pop(name, None)
        self.change(self.ledger.without(names))

    @rule(data=st.data(), standing=st.sampled_from(Standing))
    def stand(self, data: st.DataObject, standing: Standing) -> None:
        name = data.draw(self.name())
        self.expect([name], standing=standing)
        self.change(self.ledger.standing(name, standing))

    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        names = data.draw(self.names())
        self.expect(names, standing=Standing.LIVE, touched=self.time)
        self.change(self.ledger.touched(names, at=self.time))

    @rule(data=st.data(), owner=values.owners)
    def own(self, data: st.DataObject, owner: Owner) -> None:
        name = data.draw(self.name())
        if name in self.model:
            known = self.model[name].owner
            known |= {key: new for key, new in asdict(owner).items() if known[key] is None}
        self.change(self.ledger.owned(name, owner))

    @rule(data=st.data(), inode=st.integers(1, 99))
    def make(self, data: st.DataObject, inode: int) -> None:
        names = data.draw(self.names())
        inodes = {name: inode + number for number, name in enumerate(names)}
        for name, found in inodes.items():
            self.expect([name], inode=found)
        self.change(self.ledger.made(inodes))

    @rule(data=st.data())
    def adopt(self, data: st.DataObject) -> None:
        """The kubelet's record names what we know, and what we know no longer."""
        if not self.stored:
            return
        entry = data.draw(st.sampled_from(list(self.stored.values())))
        (name,) = entry.named()
        _, secret = self.given[name]
        found = adoption(entry, [self.pool], now=NOW)
        assert found is not None
        allocation = found.with_secret(Secret(secret))
        if name in self.model:
            with pytest.raises(ValueError, match="in the ledger already"):
                self.ledger.with_live([allocation], at=self.time)
            return
        drawn = Draw(id=name, secret=Secret(secret))
        self.enter([(drawn, entry.devices)], Owner(uid=entry.uid, container=entry.container))
        self.change(self.ledger.with_live([allocation], at=self.time))

    @rule(data=st.data())
    def grant_elsewhere(self, data: st.DataObject) -> None:
        """Another process of ours granted something of which only the kubelet's record tells us."""
        requests = data.draw(values.requests(self.pool))
        draws = self.draw(len(requests))
        made = plan(self.pool, requests, Ledger(), draws, now=NOW)
        self.given |= {each.id: (each.host_socket, each.secret.reveal()) for each in made.allocations}
        self.store(made.allocations)

    @rule()
    def wait(self) -> None:
        self.time += 1.0

    # What must hold

    @invariant()
    def the_ledger_is_what_the_model_says(self) -> None:
        assert rows_of(self.ledger) == self.model
        assert [record.allocation.id for record in self.ledger] == list(self.model)
        assert len(self.ledger) == len(self.model)

    @invariant()
    def path_and_secret_never_change(self) -> None:
        assert {name: (row.path, row.secret) for name, row in rows_of(self.ledger).items()} == {
            name: self.given[name] for name in self.model
        }

    @invariant()
    def no_two_allocations_share_a_directory_or_a_secret(self) -> None:
        assert len({record.allocation.directory.path for record in self.ledger}) == len(self.ledger)
        assert len({record.allocation.secret for record in self.ledger}) == len(self.ledger)

    @invariant()
    def live_allocations_and_their_devices_are_found(self) -> None:
        live = {name: row for name, row in self.model.items() if row.standing is Standing.LIVE}

        assert [each.id for each in self.ledger.live()] == list(live)
        assert self.ledger.devices_held(self.pool.resource) == {
            device for row in live.values() for device in row.devices
        }

    @invariant()
    def earlier_ledgers_have_not_moved(self) -> None:
        assert all(rows_of(ledger) == rows for ledger, rows in self.pictures)

    # How it is done

    def draw(self, count: int) -> tuple[Draw, ...]:
        self.drawn += count
        return tuple(a_draw(number) for number in range(self.drawn - count, self.drawn))

    def name(self) -> st.SearchStrategy[AllocationId]:
        return st.sampled_from([*self.model, STRANGER])

    def names(self) -> st.SearchStrategy[list[AllocationId]]:
        return st.lists(self.name(), max_size=3, unique=True)

    def enter(self, granted: Iterable[tuple[Draw, Sequence[DeviceId]]], owner: Owner) -> None:
        for drawn, devices in granted:
            path = f"{self.pool.host_dir}/{drawn.id}/{self.pool.socket_name}"
            self.given.setdefault(drawn.id, (path, drawn.secret.reveal()))
            self.model[drawn.id] = Row(
                devices=sorted(devices, key=list(self.pool.indexes).index),
                path=path,
                secret=drawn.secret.reveal(),
                owner=asdict(owner),
                touched=self.time,
            )

    def expect(self, names: Iterable[AllocationId], **changes: Any) -> None:
        for name in names:
            if name in self.model:
                self.model[name] = replace(self.model[name], **changes)

    def change(self, ledger: Ledger) -> None:
        self.pictures = [*self.pictures[-4:], (self.ledger, rows_of(self.ledger))]
        self.ledger = ledger

    def store(self, allocations: Iterable[Allocation]) -> None:
        """Let the kubelet write its record."""
        self.stored |= {each.id: an_entry(each, "uid-1", "app", self.pool) for each in allocations}


TestAllocator = Allocator.TestCase
TestAllocator.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
