"""One file per method; a method is found by the name of its file."""

# The files of this folder that are not methods: the contract, the round, and what methods share.
HELPERS = (
    "contract", "options", "messages", "guard", "round", "members", "selection", "stretch",
    "poisoning", "defending", "client_rows", "titles", "averaging", "checked", "masked", "wired",
    "codes", "coding", "graphs", "adapting", "curvature", "forgetting", "quadratics", "statistics",
    "trust", "values", "noisy", "noise_rules",
)  # fmt: skip
