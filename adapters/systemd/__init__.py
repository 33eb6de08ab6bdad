"""What a service manager that started us is told.

What this package promises: without such a manager it does nothing; with one it sends datagrams and never waits, and
one that cannot be sent keeps nobody from serving.
"""
