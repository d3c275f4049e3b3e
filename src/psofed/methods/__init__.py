"""One file per method; a method is found by the name of its file."""
