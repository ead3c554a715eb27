"""Hosts attempts: runs a job's pipelines side by side, starts them again when they fail, ends them when asked."""
