"""One file each; `base.py` is the contract. A transform is a plan that Spark runs, never a loop over rows."""
