"""What a server may learn of a client: the table [privacy], masks, and what noise is worth."""
