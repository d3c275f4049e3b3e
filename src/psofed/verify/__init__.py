"""Executors compared with each other, and a deployment with its simulation, number by number."""
