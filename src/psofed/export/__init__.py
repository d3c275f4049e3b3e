"""A trained model for other programs: ONNX, a C header, JSON. One file per format."""
