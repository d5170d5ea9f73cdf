"""The formats SavedModel, ONNX, OpenVINO and LiteRT, and quantization."""
