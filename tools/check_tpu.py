#!/usr/bin/env python3
"""Checks without a TPU whether a training step would run on one, with the TPU's own compiler.

The code is in bert_keras/commands/check_tpu.py.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.commands.check_tpu import run_program

if __name__ == "__main__":
    run_program()
