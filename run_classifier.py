#!/usr/bin/env python3
"""Fine-tunes BERT for classification, regression, multi-label or multiple-choice tasks, evaluates and predicts.

The code is in bert_keras/commands/run_classifier.py.
"""

from bert_keras.commands.run_classifier import run_program

if __name__ == "__main__":
    run_program()
