"""Figures, always as ratios in one run: the machine is shared and noisy. `python -m bench --help`."""
