"""Docker, read through its Engine API with the SDK ``docker``.

What this package promises: it only reads, and changes nothing in Docker; it reads no environment and none of the
``docker`` command's configuration, only the socket that it is given; its threads end when the call that they serve
ends; and nothing of the SDK is imported before the first call, because that import alone takes longer than all else
that the daemon does to be registered.
"""
