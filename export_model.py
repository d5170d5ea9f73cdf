#!/usr/bin/env python3
"""Exports a model for use without this project: as a SavedModel that takes text, ONNX, OpenVINO, LiteRT, or a web page.

The code is in bert_keras/commands/export_model.py.
"""

from bert_keras.commands.export_model import run_program

if __name__ == "__main__":
    run_program()
