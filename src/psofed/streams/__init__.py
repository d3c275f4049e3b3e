"""Where samples come from: one file per stream, found by its name."""
