"""What people look at: figures, tables, claims and files."""
