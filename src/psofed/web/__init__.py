"""Pages that people look at: one self-contained file each, opened offline, closed to injection."""
