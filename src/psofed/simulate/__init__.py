"""Executors on this machine: the dense reference, the compiled engine, Monte Carlo around it."""
