"""Keras's backend, which is TensorFlow wherever a model is asked. Imports without TensorFlow."""


def check_backend(backend: str) -> None:
    """Refuses another backend of Keras than TensorFlow.

    Args:
        backend: its name, as of `keras.backend.backend()` or the environment variable KERAS_BACKEND.

    Raises:
        ValueError: it is another one.
    """
    if backend != "tensorflow":
        raise ValueError(
            f"Keras is set to run on {backend} (KERAS_BACKEND), but `prediction` needs TensorFlow; set "
            "KERAS_BACKEND=tensorflow (only the network, `modeling`, also runs on JAX and PyTorch)"
        )
