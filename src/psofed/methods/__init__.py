"""One file per method; a method is found by the name of its file."""

# The files of this folder that are not methods: the contract, the round, and what methods share.
HELPERS = (
    "contract", "guard", "round", "members", "selection", "stretch", "titles",
    "basis", "coding", "curvature", "graphs", "quadratics",
)  # fmt: skip
