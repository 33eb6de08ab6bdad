"""What can be reckoned of a pool's device list without making it."""

from collections.abc import Iterator

from app.settings.pools import PoolSettings
from domain.identity import DeviceId
from domain.pool import LARGEST_LIST, Pool, list_size


def largest_list(pool: PoolSettings) -> int:
    """Return :func:`domain.pool.list_size` of the pool, for any capacity at the price of a few devices.

    All ids whose index has the same number of digits take the same room.
    """
    return sum(count * list_size(_with_digits(pool, digits)) for digits, count in _digits(pool.capacity))


def largest_capacity(pool: PoolSettings, limit: int) -> int:
    """Return the most devices whose list fits, at least 0."""
    capacity = 0
    for digits, count in _digits(pool.capacity):
        size = list_size(_with_digits(pool, digits))
        fitting = min(count, limit // size)
        capacity += fitting
        limit -= fitting * size
    return capacity


def shared_id(one: PoolSettings, other: PoolSettings) -> DeviceId | None:
    """Return an id that two pools would both advertise, unless a list is too large to be advertised at all."""
    starts = [_rendered(pool).partition("{index}")[0] for pool in (one, other)]
    if not starts[0].startswith(starts[1]) and not starts[1].startswith(starts[0]):
        return None  # the usual case, in which no list need be made
    if max(largest_list(one), largest_list(other)) > LARGEST_LIST:
        return None
    theirs = other.to_domain().indexes
    return next((name for name in one.to_domain().indexes if name in theirs), None)


def _digits(capacity: int) -> Iterator[tuple[int, int]]:
    """Yield how many of the indexes below the capacity have one digit, two digits and so on."""
    first = 0
    for digits in range(1, len(str(capacity)) + 1):
        end = min(10**digits, capacity)
        if end > first:
            yield digits, end - first
        first = end


def _with_digits(pool: PoolSettings, digits: int) -> Pool:
    return pool.sample(pool.device_id.replace("{index}", "0" * digits))


def _rendered(pool: PoolSettings) -> str:
    return pool.device_id.replace("{resource}", pool.resource)
