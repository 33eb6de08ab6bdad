"""Names of extended resources, by the rules that the kubelet applies at registration.

The kubelet refuses a plugin whose resource name breaks one of them, with the text ``the ResourceName "x" is
invalid`` and no reason; so they are checked here first, each with its reason.
"""

import re
from typing import Final, NewType

from domain.errors import MemifError

ResourceName = NewType("ResourceName", str)
"""A checked name, such as ``contivpp.io/memif``."""

_LONGEST_PREFIX: Final = 253 - len("requests.")
_LONGEST_NAME: Final = 63
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_DOMAIN_FORM: Final = "letters, digits, '-' and '.', with alphanumeric ends"
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)


class InvalidResourceName(MemifError):
    """A name that the kubelet would refuse."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name!r} is no extended resource name: {reason}")
        self.name = name
        self.reason = reason


def resource_name(text: str) -> ResourceName:
    """Return the text as a checked name.

    Raises:
        InvalidResourceName: with the first rule of the kubelet that the text breaks.
    """
    reason = _flaw(text)
    if reason is not None:
        raise InvalidResourceName(text, reason)
    return ResourceName(text)


def _flaw(text: str) -> str | None:
    prefix, slash, name = text.partition("/")
    rules = (
        (bool(slash), "it must have a domain, as in example.com/memif"),
        ("kubernetes.io/" not in text, "kubernetes.io/ is reserved for Kubernetes"),
        (not text.startswith("requests."), "the prefix 'requests.' is reserved for quotas"),
        (len(prefix) <= _LONGEST_PREFIX, f"its domain has {len(prefix)} characters, at most {_LONGEST_PREFIX} may be"),
        (_SUBDOMAIN.fullmatch(prefix), f"the domain {prefix!r} must be lower-case {_DOMAIN_FORM}"),
        (len(name) <= _LONGEST_NAME, f"after the slash are {len(name)} characters, at most {_LONGEST_NAME} may be"),
        (_NAME.fullmatch(name), "after the slash must be letters, digits, '-', '_' and '.', with alphanumeric ends"),
    )
    return next((reason for kept, reason in rules if not kept), None)
