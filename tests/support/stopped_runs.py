"""Runs programs one after the other, and sends this process a signal just before the step after a given one.

The arguments are the step, the number of the signal (0: none), and a JSON file with the list of command lines.
"""

import json
import os
import pathlib
import sys

import pytest
from training_runs import act_before

from bert_keras.programs.command import PROGRAMS


def main(step, number, file):
    with pytest.MonkeyPatch.context() as patch:
        act_before(patch, int(step), lambda: os.kill(os.getpid(), int(number)))
        for argv in json.loads(pathlib.Path(file).read_text()):
            PROGRAMS[argv[0].removesuffix(".py")].main(argv)


if __name__ == "__main__":
    main(*sys.argv[1:])
