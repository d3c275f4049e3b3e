"""What an operator looks at: the state of a served run, in browsers and for Prometheus."""
