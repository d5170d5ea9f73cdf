#!/usr/bin/env python3
"""Runs data_prep/create_pretraining_data.py, which google-research/bert has at this place."""

from bert_keras.data_prep.create_pretraining_data import run_program

if __name__ == "__main__":
    run_program()
