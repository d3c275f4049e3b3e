"""The paper's method and its closest relatives: one file each, found by its name."""

from psofed.federation.schema import public

HELPERS = ("memo",)  # the parts of MEMO-Fed, which are not methods
__getattr__, __dir__ = public(__name__)
