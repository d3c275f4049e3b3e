"""Estimators for scikit-learn and River: thin adapters over the learner of the paper."""
