"""From a table of sensors to a federated model: rounds in lockstep, scores, advice, models."""
