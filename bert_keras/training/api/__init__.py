"""The training programs as Python functions, with their flags.

If TensorFlow is not imported yet, it starts here as in the programs: without greeting lines, and with their settings.
"""

import sys

from bert_keras.cli.start import start_tensorflow

if "tensorflow" not in sys.modules:
    start_tensorflow()
