"""The node's randomness."""

import secrets
from typing import Final

from domain.identity import ALLOCATION_ID_ALPHABET, ALLOCATION_ID_LENGTH, AllocationId
from domain.secret import SECRET_ALPHABET, Secret


class _Alphabet:
    """Draws texts of equally likely characters.

    One request to the kernel for a whole text, where :func:`secrets.choice` needs one for each character.
    """

    def __init__(self, characters: str) -> None:
        # Bytes beyond the largest multiple of the alphabet's size would favour its first characters: they are dropped.
        usable = 256 - 256 % len(characters)
        self._table = (characters.encode("ascii") * (256 // len(characters) + 1))[:256]
        self._dropped: Final = bytes(range(usable, 256))

    def draw(self, length: int) -> str:
        drawn = b""
        while len(drawn) < length:
            drawn += secrets.token_bytes(2 * length).translate(self._table, self._dropped)
        return drawn[:length].decode("ascii")


_ID: Final = _Alphabet(ALLOCATION_ID_ALPHABET)
_SECRET: Final = _Alphabet(SECRET_ALPHABET)


class SystemEntropy:
    """An :class:`~domain.ports.entropy.Entropy` that asks the kernel's secure source."""

    def allocation_id(self) -> AllocationId:
        """See the port."""
        return AllocationId(_ID.draw(ALLOCATION_ID_LENGTH))

    def secret(self, length: int) -> Secret:
        """See the port."""
        return Secret(_SECRET.draw(length))
