"""REST: one file per resource. Names and shapes as in SeaTunnel's v2, and what it lacks."""
