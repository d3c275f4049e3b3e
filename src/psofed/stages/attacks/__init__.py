"""What malicious clients do: one file per attack, on what they send or on what they measure."""

HELPERS = ("contract",)  # the files of this folder that are not attacks
