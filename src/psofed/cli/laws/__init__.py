"""The contracts as rules: one battery for ours and for plug-ins."""
