"""Check of the Keras backend: prediction needs TensorFlow. Imports without TensorFlow."""


def check_backend(backend: str) -> None:
    """Checks that Keras runs on TensorFlow.

    Args:
        backend: its name, as in `keras.backend.backend()` or the environment variable KERAS_BACKEND.

    Raises:
        ValueError: Keras runs on another backend.
    """
    if backend != "tensorflow":
        raise ValueError(
            f"Keras is set to run on {backend} (KERAS_BACKEND), but `prediction` needs TensorFlow; set "
            "KERAS_BACKEND=tensorflow (only the network, `modeling`, also runs on JAX and PyTorch)"
        )
