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


def test_operations_are_those_of_the_products():
    from benchmarks import speed

    config = speed.read_config("uncased_L-12_H-768_A-12")
    # Without attention to others, two operations for each of the 84,934,656 weights of the encoder's kernels.
    kernels = 12 * (4 * 768**2 + 2 * 768 * 3072)
    assert speed.encoder_operations(config, 1, 1) == 2 * kernels + 2 * 12 * 2 * 768
    batch = speed.make_batch(config, 2, 128)
    assert batch["masked_lm_ids"].shape == (2, 20)
    masked_lm = 2 * 40 * (768**2 + 768 * 30522)
    assert speed.pretraining_operations(config, batch) == 3 * (speed.encoder_operations(config, 2, 128) + masked_lm)


def test_programs_take_turns_and_are_set_beside_the_fastest_peer(capsys):
    from benchmarks import speed

    calls = []
    programs = {name: lambda name=name: calls.append(name) for name in ("one", "two")}
    times = speed.take_turns(programs, rounds=2, seconds=0.0)
    assert calls == ["one", "one", "two", "two", "one", "two", "one", "two"]
    assert {name: len(values) for name, values in times.items()} == {"one": 2, "two": 2}

    times = {
        "bert-keras float32": [0.5, 0.4, 0.1],
        "one float32": [2.0, 2.0, 2.0],
        "two float32": [1.0, 0.8, 0.9],
        "peak float32": [0.01, 0.01, 0.01],
    }
    speed.print_table(times, batch_size=8, operations=2 * 4096**3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [
        "| bert-keras float32 | 20 | 16 to 80 | 2.25 | 2% |",
        "| one float32 | 4 | 4 to 4 | 0.45 | 0% |",
        "| two float32 | 8.89 | 8 to 10 | 1.00 | 1% |",
    ]


def test_the_comparison_of_formats_deletes_nothing_of_others(tmp_path):
    from benchmarks import inference_formats

    (tmp_path / "thesis.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ValueError, match=f"^--work_dir={path} is not an empty folder; give one that is new or"):
            inference_formats.main(["inference_formats.py", "--init_checkpoint=model", f"--work_dir={path}"])
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert inference_formats.spread([0.5, 3.0, 2.0], 1) == "2.0 (0.5 to 3.0)"
