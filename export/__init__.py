"""A trained model in the forms that leave the training machine: SavedModel with text in, ONNX, LiteRT."""
