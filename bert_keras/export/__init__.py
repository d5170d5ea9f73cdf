"""Exports trained models: SavedModel, which takes text, ONNX, OpenVINO and LiteRT."""
