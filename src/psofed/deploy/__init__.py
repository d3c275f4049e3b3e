"""The algorithm as client and server that exchange bytes: the handlers that devices run."""
