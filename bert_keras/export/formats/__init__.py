"""The formats SavedModel, ONNX and LiteRT, and quantization."""
