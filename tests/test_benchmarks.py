"""Benchmarks: what they note of the machine, and that they do not mix the texts of two runs."""

import platform
import sys
import types

import pytest

from benchmarks import machine


def test_the_processor_is_named_or_else_the_kind_of_machine(tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPU_INFO", str(info))
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "fast64")
    assert machine.processor_name() == "fast64"
    info.write_text("processor\t: 0\nBogoMIPS\t: 100.00\n")
    assert machine.processor_name() == "fast64"
    info.write_text("processor\t: 0\nmodel name\t: Chip: 5 GHz\nprocessor\t: 1\nmodel name\t: Chip: 5 GHz\n")
    assert machine.processor_name() == "Chip: 5 GHz"


def test_records_of_another_text_are_not_trained_on(tmp_path):
    from benchmarks.pretraining import split_corpus

    for name in ("one", "two"):
        (tmp_path / name).write_text("\n\n".join(f"{name} {number}" for number in range(21)) + "\n")
    one, two = [str(tmp_path / "one")], [str(tmp_path / "two")]
    split_corpus(two, tmp_path)
    text = split_corpus(one, tmp_path)  # nothing was built of two
    assert (tmp_path / "held_out.txt").read_text() == "one 0\n\none 20\n"
    (tmp_path / "train.tfrecord").touch()
    assert split_corpus(one, tmp_path) == text
    with pytest.raises(ValueError, match="holds records of another text than --corpus=.*two; give another --work_dir"):
        split_corpus(two, tmp_path)
    assert (tmp_path / "train.txt").read_text().startswith("one 1\n\none 2\n")


def test_the_comparison_of_checkpoints_deletes_nothing_of_others(tmp_path, monkeypatch):
    for name in ("keras_hub", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    from benchmarks import checkpoints

    (tmp_path / "thesis.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ValueError, match=f"--work_dir={path} is not an empty folder; give one that is new or"):
            checkpoints.main(["checkpoints.py", f"--work_dir={path}"])
    assert (tmp_path / "thesis.txt").read_text() == "mine"
