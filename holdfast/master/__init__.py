"""The master: observe, decide, act, once a tick. Leads by a lease with a growing term."""
