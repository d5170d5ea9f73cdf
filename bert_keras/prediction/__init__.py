"""Prediction with a model: one class per task takes texts and returns answers. `__init__.pyi` lists the names."""

from bert_keras.public_names import names_of_stub

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
