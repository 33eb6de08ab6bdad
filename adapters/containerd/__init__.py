"""containerd, read through its own API.

What this package promises: it only reads, and changes nothing in containerd; messages never leave it; and nothing of
the API's description is loaded before the first question, because whoever starts wants to be registered first.  What
containers carry it hands on unjudged.

Read in this order: :mod:`~adapters.containerd.runtime` (the port), :mod:`~adapters.containerd.records` (a container
becomes a value), :mod:`~adapters.containerd.feed` (when to look again, and what only events tell),
:mod:`~adapters.containerd.conversation` (how a question is put), :mod:`~adapters.containerd.api` (what there is to ask)
and :mod:`~adapters.containerd.descriptors` (how we know).
"""
