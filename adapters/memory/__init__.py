"""Every port without its technology: typed fakes that are shipped, and a whole node to play with.

What this package promises: nothing here touches a real kubelet, runtime or dataplane.  Each fake keeps its port's
promises (the contract tests that the real adapters pass are run on it too), remembers what it was asked, and has
levers, below a comment line, by which a test or the demo makes the world behave and misbehave.  The embedded node in
:mod:`adapters.memory.node` speaks the kubelet's protocols over real Unix sockets.
"""
