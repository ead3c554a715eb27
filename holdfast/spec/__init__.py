"""A job file becomes a `JobSpec` and its pipelines, or problems that name the line. Runs nothing."""
