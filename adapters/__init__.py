"""The world, one package a technology; each keeps the promises of one or more ports of :mod:`domain.ports`.

What this package promises: adapters know the domain and never each other, what an SDK raises or returns stays inside
the adapter that uses it, and importing an adapter opens nothing.  The fakes in :mod:`adapters.memory` are adapters
like the others: they pass the same contract tests.
"""
