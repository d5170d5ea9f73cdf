#!/usr/bin/env python3
"""Runs data_prep/create_pretraining_data.py, which google-research/bert has at this place."""

import sys

from bert_keras.cli.flags import run_main
from bert_keras.data_prep.create_pretraining_data import main

if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
