"""Cells are computed once, continue after an interruption, and are shared by studies."""

import json

import pytest

from bert_keras.storage.writing import lock
from studies.runner.cells import Cells


def test_a_cell_is_computed_once_and_continues_in_its_folder(tmp_path):
    calls = []

    def compute(folder):
        calls.append(folder)
        (folder / "half").touch()
        if len(calls) == 1:
            raise KeyboardInterrupt
        assert (folder / "half").exists()
        return {"value": 3}

    cells, settings = Cells(tmp_path / "cells"), {"b": [1, 2], "a": {"seed": 0}}
    with pytest.raises(KeyboardInterrupt):
        cells.get("model", settings, compute)
    assert cells.find("model", settings) is None
    result = cells.get("model", settings, compute)
    assert (result["value"], set(result)) == (3, {"value", "minutes", "processor", "date"})
    # The order of the keys does not matter, and other settings or kinds are other cells.
    same = {"a": {"seed": 0}, "b": [1, 2]}
    assert Cells(tmp_path / "cells").get("model", same, compute) == result
    assert len(calls) == 2
    assert cells.find("model", {**same, "b": [1]}) is None
    assert cells.find("probe", same) is None
    kept = json.loads((calls[0] / "settings.json").read_text(encoding="utf-8"))
    assert kept == {"kind": "model", **settings}


def test_two_processes_do_not_compute_a_cell_at_once(tmp_path):
    cells = Cells(tmp_path)
    folder = cells.path("model", {})
    folder.mkdir(parents=True)
    with lock(folder / "lock"), pytest.raises(ValueError, match="^another process computes .*; wait for it, or choose"):
        cells.get("model", {}, lambda folder: {})
    assert cells.get("model", {}, lambda folder: {"value": 1})["value"] == 1
