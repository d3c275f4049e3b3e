"""Who takes part, and with which weight: one file per policy, for any method with a server."""

HELPERS = ()  # every file is a policy
