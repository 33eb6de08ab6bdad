"""What is wrong with a node, and what to do about it.

Each module judges one part of the node: facts, gathered by whoever can see the node, go in, and findings come out.
Nothing here looks at anything itself.
"""
