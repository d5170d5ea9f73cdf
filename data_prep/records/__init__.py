"""TFRecord files of examples and features."""
