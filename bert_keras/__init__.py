"""BERT on TensorFlow and Keras. `__init__.pyi` lists the public names."""

import pathlib

# setup.py reads this line.
__version__ = "0.1.0"

# In a clone, `modeling` and `data_prep` are next to this folder; the links to them may be missing.
_CLONE = pathlib.Path(__file__).resolve().parents[1]
if (_CLONE / "bert_keras").is_dir() and (_CLONE / "modeling" / "checkpoints").is_dir():
    __path__.append(str(_CLONE))

from bert_keras.public_names import names_of_stub  # noqa: E402

__all__, __getattr__, __dir__ = names_of_stub(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
