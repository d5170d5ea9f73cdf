#!/usr/bin/env python3
"""Predicts with a fine-tuned model, an export or a pre-trained model.

The code is in bert_keras/commands/predict.py.
"""

from bert_keras.commands.predict import run_program

if __name__ == "__main__":
    run_program()
