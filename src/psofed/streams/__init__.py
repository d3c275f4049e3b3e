"""Where samples come from: one file per stream, found by its name."""

# The files of this folder that are not streams.
HELPERS = (
    "chance", "contract", "drawing", "expression", "inputs", "own_inputs", "switching", "synthetic",
)  # fmt: skip
