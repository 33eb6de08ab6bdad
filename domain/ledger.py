"""The ledger: every allocation that we know, and how it stands.

A value: each change returns a new ledger, so a reader that waits for something keeps a picture that does not move.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from domain.allocation import Allocation, Owner
from domain.identity import AllocationId, DeviceId
from domain.resource import ResourceName


class Standing(StrEnum):
    """How an allocation stands."""

    LIVE = "live"
    """Granted or adopted; its directory must exist."""
    RELEASING = "releasing"
    """On its way out: the record stays until the directory is gone, so that a crash in between is resumed."""
    FORCED = "forced"
    """Removed by an operator's force although something may still name it; hidden, and kept so that adoption does
    not bring it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One allocation in the ledger.

    Attributes:
        touched: monotonic seconds; the latest of its grant or adoption, the last PreStartContainer that named it, and
            the moment at which this process became active.  Times from before that moment count as that moment.
        inode: of the directory that we made or mended last, ``None`` before the first time in this process.
    """

    allocation: Allocation
    standing: Standing = Standing.LIVE
    touched: float
    inode: int | None = None


@dataclass(frozen=True, slots=True)
class Ledger:
    """All records by allocation id, in the order of their grant."""

    records: Mapping[AllocationId, Record] = field(default_factory=lambda: MappingProxyType({}))

    def __contains__(self, name: object) -> bool:
        return name in self.records

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records.values())

    def __len__(self) -> int:
        return len(self.records)

    def get(self, name: AllocationId) -> Record | None:
        """Return a record of any standing."""
        return self.records.get(name)

    def live(self) -> tuple[Allocation, ...]:
        """Return the allocations that live, in the order of their grant."""
        return tuple(record.allocation for record in self if record.standing is Standing.LIVE)

    def holding(self, resource: ResourceName, devices: Iterable[DeviceId]) -> tuple[Record, ...]:
        """Return the records, of any standing, that hold one of a resource's ids; another's may be spelt alike."""
        wanted = frozenset(devices)
        return tuple(
            record
            for record in self
            if record.allocation.resource == resource and not wanted.isdisjoint(record.allocation.devices)
        )

    def devices_held(self, resource: ResourceName) -> frozenset[DeviceId]:
        """Return the distinct ids of a resource that live allocations hold."""
        return frozenset(device for each in self.live() if each.resource == resource for device in each.devices)

    def with_live(self, allocations: Iterable[Allocation], *, at: float) -> "Ledger":
        """Return the ledger with allocations that were granted or adopted at a monotonic time.

        Raises:
            ValueError: one of them is known already; nothing may overwrite a record.
        """
        records = _copied(self.records)
        for each in allocations:
            if each.id in records:
                msg = f"allocation {each.id} is in the ledger already"
                raise ValueError(msg)
            records[each.id] = Record(allocation=each, touched=at)
        return Ledger(MappingProxyType(records))

    def touched(self, names: Iterable[AllocationId], *, at: float) -> "Ledger":
        """Return the ledger with allocations that PreStartContainer named at a monotonic time, all alive again."""
        return self._changed(names, lambda record: replace(record, standing=Standing.LIVE, touched=at))

    def owned(self, name: AllocationId, owner: Owner) -> "Ledger":
        """Return the ledger with the gaps of one owner filled."""
        return self._changed((name,), lambda record: replace(record, allocation=record.allocation.owned_by(owner)))

    def standing(self, name: AllocationId, standing: Standing) -> "Ledger":
        """Return the ledger with one record standing differently."""
        return self._changed((name,), lambda record: replace(record, standing=standing))

    def made(self, inodes: Mapping[AllocationId, int]) -> "Ledger":
        """Return the ledger with the inodes of directories that we made or mended."""
        return self._changed(inodes, lambda record: replace(record, inode=inodes[record.allocation.id]))

    def without(self, names: Iterable[AllocationId]) -> "Ledger":
        """Return the ledger without some records; unknown names are ignored, so that dropping can be repeated."""
        gone = frozenset(names)
        return Ledger(MappingProxyType({name: record for name, record in self.records.items() if name not in gone}))

    def _changed(self, names: Iterable[AllocationId], change: Callable[[Record], Record]) -> "Ledger":
        records = _copied(self.records)
        for name in names:
            if name in records:
                records[name] = change(records[name])
        return Ledger(MappingProxyType(records))


def _copied(records: Mapping[AllocationId, Record]) -> dict[AllocationId, Record]:
    """Copy records in one step: ``dict`` would ask a read-only view for each key, in every Allocate."""
    return records.copy() if isinstance(records, MappingProxyType) else dict(records)
