"""The curious server: what can be read from the messages of a federation."""
