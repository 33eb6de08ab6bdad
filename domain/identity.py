"""The names by which things are told apart."""

import re
from typing import Final, NewType

DeviceId = NewType("DeviceId", str)
"""One advertised device, such as ``contivpp.io/memif/7``.  Not proof of who holds it: the kubelet hands the same id
to an init container and a later container of one pod, and may hand it on while an old container still runs."""

AllocationId = NewType("AllocationId", str)
"""One granted container request; also the base name of its directory.  See :func:`is_allocation_id`."""

PodUid = NewType("PodUid", str)
"""A pod's uid as the kubelet and the runtime know it; of a static pod, the hash of its manifest."""

ALLOCATION_ID_LENGTH: Final = 20
"""Characters in an allocation id; Contiv-VPP's directories have as many."""

ALLOCATION_ID_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What new ids are drawn from: no vowels and no look-alikes, as Contiv-VPP draws them."""

_WELL_FORMED: Final = re.compile(r"[a-z0-9]{20}", re.ASCII)


def is_allocation_id(name: str) -> bool:
    """Tell whether a directory name may be an allocation's.

    Wider than the alphabet of new ids on purpose: directories of an earlier Contiv agent are adopted too.
    """
    return _WELL_FORMED.fullmatch(name) is not None
