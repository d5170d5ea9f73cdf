"""Training with JAX in place of TensorFlow: the devices and the step."""
