"""A small HTTP server for pages that a scraper or a probe reads.

What this package promises: it serves what it is given and decides nothing.  What a client does (garbage, silence, a
request byte by byte, a thousand connections) costs a bounded amount of memory, descriptors and time, and keeps an
honest client waiting no longer than a moment.

It is our own because so little of HTTP is needed: GET and HEAD of a few paths, one request a connection, no bodies.
"""
