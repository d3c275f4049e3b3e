"""The mathematics of the paper, on NumPy arrays; no input, no output."""

__version__ = "0.1.0"  # of psofed: here for those who must not import the whole package
