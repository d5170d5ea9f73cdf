"""What the programs share: flags, the screen, progress, how TensorFlow is started."""
