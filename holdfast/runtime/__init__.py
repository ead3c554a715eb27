"""The epoch loop on Spark: plan, read, transform, stage, commit, publish, ack."""
