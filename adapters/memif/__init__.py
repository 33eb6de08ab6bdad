"""The memif control protocol, version 2.0: what VPP, DPDK and libmemif say to each other before packets flow.

What this package promises: it speaks the control channel only and never touches a packet; whatever a peer sends is
judged before it is used, ends in an exception of :mod:`~adapters.memif.errors` at worst, and leaves no descriptor and
no task behind; no secret is ever shown; and it reaches no other socket than the one that it is given, through no
symbolic link.

Read in this order: :mod:`~adapters.memif.codec` (bytes become values), :mod:`~adapters.memif.connection` (values cross
a socket), :mod:`~adapters.memif.rings` (the shared memory that is agreed on), :mod:`~adapters.memif.client` (the pod's
end, and the probe), :mod:`~adapters.memif.handshake` and :mod:`~adapters.memif.server` (the dataplane's end).
"""
