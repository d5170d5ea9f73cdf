#!/usr/bin/env python3
"""Serves models over HTTP.

The code is in bert_keras/commands/serve.py.
"""

from bert_keras.commands.serve import run_program

if __name__ == "__main__":
    run_program()
