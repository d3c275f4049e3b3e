"""Methods at equal bytes: budgets, steps and bytes to a target. No method is known by name."""
