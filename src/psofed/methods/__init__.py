"""The paper's method and its closest relatives: one file each, found by its name."""

HELPERS = ("memo",)  # the parts of MEMO-Fed, which are not methods
