"""Randomness without chance."""

from collections import deque
from typing import Final

from domain.identity import ALLOCATION_ID_ALPHABET, ALLOCATION_ID_LENGTH, AllocationId
from domain.secret import Secret

_DIGITS: Final = ALLOCATION_ID_ALPHABET
_ZERO: Final = _DIGITS[0]
_SEED_LENGTH: Final = 4


class SeededEntropy:
    """An :class:`~domain.ports.entropy.Entropy` that draws the same in every run, and something readable.

    Ids count up in the alphabet of new ids, whose zero is ``b``: the seed in front, the number at the end.  Secrets are
    ``Secret<seed>n<number>`` with zeros in between, counted apart from the ids.

    Args:
        seed: two sources of different seeds never draw the same, as long as both seeds are below 500 000.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._ids = 0
        self._secrets = 0
        self._next: deque[AllocationId] = deque()

    def allocation_id(self) -> AllocationId:
        """See the port."""
        if self._next:
            return self._next.popleft()
        self._ids += 1
        number = _in_letters(self._ids).rjust(ALLOCATION_ID_LENGTH - _SEED_LENGTH, _ZERO)
        return AllocationId(_in_letters(self._seed).rjust(_SEED_LENGTH, _ZERO)[-_SEED_LENGTH:] + number)

    def secret(self, length: int) -> Secret:
        """See the port."""
        self._secrets += 1
        front = f"Secret{self._seed}n"
        return Secret((front + str(self._secrets).rjust(length - len(front), "0"))[-length:])

    # Levers.

    def draw_next(self, *names: AllocationId) -> None:
        """Draw these ids next, whatever they are; a way to an id that is in use already."""
        self._next.extend(names)


def _in_letters(number: int) -> str:
    letters = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        letters = _DIGITS[digit] + letters
    return letters
