"""SavedModel, ONNX and LiteRT, and smaller numbers."""
