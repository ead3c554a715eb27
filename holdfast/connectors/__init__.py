"""One folder or file per system; `base.py` is the contract, `registry.py` finds them."""
