"""The same job, written in other ways: `run(inputs)` gives the test error [method, N + 1]."""
