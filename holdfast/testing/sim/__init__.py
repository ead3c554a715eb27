"""The simulator: real masters, workers, attempts, chains and store under a virtual clock, one step at a time."""
