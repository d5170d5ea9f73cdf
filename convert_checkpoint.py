#!/usr/bin/env python3
"""Downloads released models, converts TensorFlow checkpoints to safetensors and back, and extends vocabularies.

The code is in bert_keras/commands/convert_checkpoint.py.
"""

from bert_keras.commands.convert_checkpoint import run_program

if __name__ == "__main__":
    run_program()
