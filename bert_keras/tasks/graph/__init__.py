"""Networks and text models as TensorFlow operations, which the graphs of all tasks share."""
