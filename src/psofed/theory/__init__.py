"""What can be known before a run: safe steps, the mean error, and the mean-square error."""
