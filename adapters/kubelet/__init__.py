"""The kubelet, from both sides.

What this package promises: it alone speaks the device-plugin and pod-resources protocols and reads the kubelet's
checkpoint file, and protobuf messages never leave it.  It decides nothing about allocations; it translates.

Read in this order: :mod:`~adapters.kubelet.service` (a call of the kubelet comes in), :mod:`~adapters.kubelet.server`
(the socket that it comes in by), :mod:`~adapters.kubelet.session` (how a pool gets and stays registered) and
:mod:`~adapters.kubelet.plugins` (all pools together).
"""
