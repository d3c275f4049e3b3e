"""What the server does about malicious clients: one file per defence, at the fold of any method."""

HELPERS = ("contract",)  # the files of this folder that are not defences
