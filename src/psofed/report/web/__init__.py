"""Web pages: one self-contained file each, usable offline, safe against injection."""
