"""Tables as samples: columns read, put in order, scaled and encoded. NumPy only."""
