"""The secret of a memif socket, in a type that cannot be printed by accident."""

from dataclasses import dataclass
from typing import Final

SHORTEST_SECRET: Final = 16
LONGEST_SECRET: Final = 23
"""Characters.  The control protocol carries 24 bytes, the last of which is the terminator."""

SECRET_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
"""Nothing that VPP's command line or DPDK's device arguments would treat as a separator."""

_USABLE: Final = frozenset(map(chr, range(ord("!"), ord("~") + 1))) - frozenset(",\"'")

MASK: Final = "***"
"""What stands for a secret wherever one might show.  Constant, so that it does not betray the length."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A memif secret.  ``repr``, ``str`` and ``format`` show :data:`MASK`; only :meth:`reveal` gives the text."""

    _text: str

    def reveal(self) -> str:
        """Return the text itself, for the answer to the kubelet, the journal, and nobody else."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)


def is_secret(text: str) -> bool:
    """Tell whether a text can be a secret that memif peers are able to use: 1 to 23 printable, unspaced characters.

    Wider than what we draw: a secret of an earlier Contiv agent is adopted as it is.
    """
    return 1 <= len(text) <= LONGEST_SECRET and _USABLE.issuperset(text)
