"""What stands in for a container runtime that cannot be read.

What this package promises: it touches nothing, and says that it knows nothing.  An unknown view releases and sweeps
nothing, so a node without a readable runtime grants, repairs and looks up as ever, and only keeps what it has.
"""
