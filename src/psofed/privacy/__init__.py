"""The honest-but-curious server: which samples it can reconstruct from its clients' messages."""
