"""Starts TensorFlow without the lines it greets with, and quickly."""

import gc
import os
import re
import sys
import tempfile

# What TensorFlow 2.21 tells every user of a machine without a GPU, before any setting of its log takes hold. Whatever
# else it says (a GPU whose libraries are missing) is shown.
_GREETINGS = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|Could not find cuda drivers"
    rb"|failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit: UNKNOWN ERROR"
    rb"|optimized to use available CPU|To enable the following instructions"
)


def start_tensorflow():
    """Imports TensorFlow and looks for its devices, holding back its greetings; the rest goes to standard error.

    From then on it says warnings and errors, and what is merely information if TF_CPP_MIN_LOG_LEVEL=0 asks for it.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    sys.stderr.flush()
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            _import_tensorflow().config.list_physical_devices()
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
            said.seek(0)
            rest = [line for line in said.read().splitlines(keepends=True) if not _GREETINGS.search(line)]
            os.write(2, b"".join(rest))


def _import_tensorflow():
    """Returns TensorFlow. Where it is the first to import it, Python's search for garbage leaves its 700,000 objects
    alone, none of which ever is: a third of the time that the import takes, and nearly all that the program's end does.
    """
    is_first, is_searching = "tensorflow" not in sys.modules, gc.isenabled()
    if is_first:
        gc.disable()
    try:
        import tensorflow as tf
    finally:
        if is_searching:
            gc.enable()
    if is_first:
        gc.freeze()
    return tf
