"""From a table of sensors to a federated model: reading, inputs, rounds, scores, advice."""
