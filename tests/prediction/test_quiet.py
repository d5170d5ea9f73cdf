"""What libraries write while they work does not reach the user; errors do."""

import logging
import os
import sys
import warnings

import pytest

from prediction.quiet import quietly


def test_nothing_is_written_meanwhile_and_all_is_after(capfd, messages):
    with quietly():
        print("said in Python")
        print("said in Python", file=sys.stderr)
        os.write(1, b"said beneath it")
        os.write(2, b"said beneath it")
        logging.getLogger("bert_keras").error("logged")
        warnings.warn("warned", stacklevel=1)
    assert capfd.readouterr() == ("", "")
    assert messages == []
    print("heard")
    os.write(2, b"heard too")
    assert capfd.readouterr() == ("heard\n", "heard too")
    logging.getLogger("bert_keras").error("logged again")
    assert messages == ["logged again"]


def test_an_error_comes_out_and_output_is_back(capfd):
    def fail():
        with quietly():
            os.write(2, b"said before")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="^broken$"):
        fail()
    os.write(2, b"heard")
    assert capfd.readouterr() == ("", "heard")
