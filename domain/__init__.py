"""The pure core: values and rules, and nothing that touches the world.

What this package promises: it performs no I/O, reads no clock, draws no random number, writes no log line, awaits
nothing and imports no SDK.  Time, entropy and evidence are arguments; decisions are frozen values that somebody else
carries out.  Whoever needs the world reaches it through the protocols in :mod:`domain.ports`.

Read in this order: :mod:`domain.pool` (what is offered), :mod:`domain.grant` (how a container gets its share),
:mod:`domain.ledger` (what is remembered), :mod:`domain.evidence` (what is seen), :mod:`domain.resync` (what follows
from both) and :mod:`domain.lookup` (who asks what belongs to whom).
"""
