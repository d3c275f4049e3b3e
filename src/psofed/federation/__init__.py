"""What methods, stages and drivers are written against: the contract, the round, plug-ins."""
