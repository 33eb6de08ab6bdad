"""What the core asks of the world (outbound), and what the world may ask of the core (:mod:`domain.ports.inbound`).

One file a port; each is a protocol in the domain's words, and its docstring lists the promises that the contract
tests check on every adapter and fake.  Ports to storage are plain calls, because journal and file system are used by
one worker, in order, and a job there must be able to do several things as one; everything that waits for another
process is asynchronous.
"""
