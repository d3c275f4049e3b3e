"""Executors on this machine, in C and in NumPy, with Monte Carlo around them: `onerun.py`."""
