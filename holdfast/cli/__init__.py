"""Commands: each a thin caller of the node."""
