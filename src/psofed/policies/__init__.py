"""Who takes part, and with which weight: one file per policy, for any method with a server."""

HELPERS = (
    "contract",
    "admission",
)  # the files of this folder that are not policies
