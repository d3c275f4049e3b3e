"""Results for readers: figures, tables, claims and files."""
