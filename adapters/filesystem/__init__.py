"""The file system of the node: the directories in which memif control sockets live.

What this package promises: it alone touches what lies below a pool's base directory, and nothing outside of it.
Everything is reached through open descriptors, no symbolic link is followed below the base, no mount is entered for
deletion, every pass over what tenants left is bounded, and no :class:`OSError` leaves: errors are the port's own, with
the path and the way out.
"""
