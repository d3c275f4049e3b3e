"""What malicious clients do: one file per attack, on what they send or on what they measure."""

from psofed.federation.schema import public

HELPERS = ("contract",)  # the files of this folder that are not attacks
__getattr__, __dir__ = public(__name__)
