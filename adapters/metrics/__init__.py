"""Metrics, in the format of Prometheus.

What this package promises: counting costs a few additions and loads nothing; prometheus_client is loaded when somebody
asks for the metrics for the first time, apart from the event loop.  What is counted by is known beforehand: no name of
a pod, a container or a device, no path and no secret is ever the value of a label.

Read in this order: :mod:`~adapters.metrics.counts` (what happened), :mod:`~adapters.metrics.collector` (every metric
with its name), :mod:`~adapters.metrics.exposition` (the text).
"""
