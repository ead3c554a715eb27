"""The chain in checkpoint storage: write, find, verify, savepoint, remove. Knows no Spark and no connector."""
