"""What stands around a round: checks, codes, noise, masks, attacks, defences, averaging."""
