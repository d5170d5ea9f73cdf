"""Exports trained models: SavedModel, which takes text, ONNX and LiteRT."""
