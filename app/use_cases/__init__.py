"""What the product does, one class a use case: ask, let the core decide, do.

What this package promises: it decides nothing that a rule of :mod:`domain` could decide, and touches the world through
ports only.  All of it runs on one event loop, which owns :class:`~app.use_cases.state.State`; so between two awaits
nothing changes, and there are no locks.  Storage is used in one worker, in order.

Read :mod:`~app.use_cases.allocate` first, then :mod:`~app.use_cases.reconcile`.
"""
