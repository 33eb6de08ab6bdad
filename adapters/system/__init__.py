"""What the operating system offers to one process: time, randomness, a thread and a lock.

What this package promises: the standard library is all that it needs, no module here opens or starts anything when it
is imported, and nothing here knows what an allocation is for.
"""
