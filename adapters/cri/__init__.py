"""Any container runtime that a kubelet can use, by the interface that the kubelet uses: the CRI, version v1.

What this package promises: it alone speaks the CRI, protobuf messages never leave it, and it only ever reads: no call
of it makes, changes or removes anything in the runtime.  What containers carry it hands on unjudged.

Read in this order: :mod:`~adapters.cri.runtime` (the port), :mod:`~adapters.cri.known` (what need not be asked again),
:mod:`~adapters.cri.changes` (when to look again) and :mod:`~adapters.cri.translate` (a message becomes a value).
"""
