"""The mathematics of the paper, on NumPy arrays; no input, no output."""
