"""What the server does about malicious clients: one file per defence, at the fold of any method."""

from psofed.federation.schema import public

HELPERS = ("contract",)  # the files of this folder that are not defences
__getattr__, __dir__ = public(__name__)
