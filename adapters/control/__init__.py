"""The control API: gRPC on Unix sockets for operators, dataplane agents and CNI plugins, and its client.

What this package promises: it decides nothing; each call is translated, handed to an inbound port and translated back.
A secret leaves only where it was asked for.  What a client does (give up, stay slow, come a thousand times) costs the
daemon neither a half-done change nor memory without bound, and nothing here is in the way of an Allocate.

Read in this order: :mod:`~adapters.control.service` (the calls), :mod:`~adapters.control.watching` (the one that
lasts), :mod:`~adapters.control.server` (the sockets), :mod:`~adapters.control.client` (the other end).
"""
