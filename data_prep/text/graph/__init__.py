"""The tokenizer as TensorFlow operations, and as a Keras layer."""
