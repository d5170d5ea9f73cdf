"""The command line: the release's flags, its examples, and one sentence for each mistake."""

import os
import pathlib
import subprocess
import sys

import pytest

from data_prep.create_pretraining_data import define_flags, main, run
from data_prep.records import read_metadata
from tests.data_prep.tiny_data import examples_of, parsed_examples_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = "create_pretraining_data.py"

GOLDEN_RUNS = ["sample_cased_short", "sample_default", "sample_wwm_seq64", "wiki_seq128"]


def assert_same_examples(ours, golden):
    ours, golden = parsed_examples_of(ours), parsed_examples_of(golden)
    assert len(ours) == len(golden) > 0
    for number, (example, expected) in enumerate(zip(ours, golden, strict=True)):
        assert example == expected, f"example {number}"


@pytest.mark.parametrize("name", GOLDEN_RUNS)
def test_examples_are_those_of_the_release(name, shared_dir, tmp_path, monkeypatch):
    golden, vocab_file = shared_dir("golden/create_pretraining_data"), shared_dir("data/vocab/uncased.txt")
    flags = (golden / f"{name}.tfrecord.flags").read_text().split()
    monkeypatch.chdir(golden)
    main([PROGRAM, *flags, f"--vocab_file={vocab_file}", f"--output_file={tmp_path}/out"])
    assert_same_examples(tmp_path / "out", golden / f"{name}.tfrecord")


def test_two_inputs_into_two_outputs_as_the_release(shared_dir, tmp_path, monkeypatch):
    golden, vocab_file = shared_dir("golden/create_pretraining_data"), shared_dir("data/vocab/uncased.txt")
    monkeypatch.chdir(golden)
    flags = [
        "--input_file=sample_text.txt,wiki_small.txt",
        "--max_seq_length=96",
        "--max_predictions_per_seq=14",
        "--random_seed=5",
        "--dupe_factor=1",
        "--do_lower_case=True",
    ]
    main([PROGRAM, *flags, f"--vocab_file={vocab_file}", f"--output_file={tmp_path}/0,{tmp_path}/1"])
    for number in (0, 1):
        assert_same_examples(tmp_path / str(number), golden / f"two_inputs_{number}.tfrecord")


def test_flags_and_defaults_are_those_of_the_release():
    values = define_flags()
    assert values.flag_values_dict() == {
        "input_file": None,
        "output_file": None,
        "vocab_file": None,
        "do_lower_case": True,
        "do_whole_word_mask": False,
        "max_seq_length": 128,
        "max_predictions_per_seq": 20,
        "random_seed": 12345,
        "dupe_factor": 10,
        "masked_lm_prob": 0.15,
        "short_seq_prob": 0.1,
        "strict_utf8": False,
        "masked_spans": "none",
        "dynamic_masking": False,
        "sentence_task": "next_sentence",
        "num_workers": 1,
        "num_shards": 1,
        "compression": "none",
    }


@pytest.fixture
def arguments(tmp_path, letters_vocab_file):
    """A command line that works, on a small text."""
    (tmp_path / "text.txt").write_text("ab c def\ngh i\njklm no\n\npq r\nstu\nvw x\n")
    return [
        PROGRAM,
        f"--input_file={tmp_path}/text.txt",
        f"--output_file={tmp_path}/out.tfrecord",
        f"--vocab_file={letters_vocab_file}",
        "--max_seq_length=16",
        "--max_predictions_per_seq=3",
    ]


def test_the_summary_is_returned_shown_and_stored(arguments, tmp_path, capsys):
    summary = main([*arguments, "--dupe_factor=7", "--do_whole_word_mask"])
    metadata = read_metadata(str(tmp_path / "out.tfrecord"))
    assert metadata["summary"] == summary
    assert metadata["settings"]["dupe_factor"] == 7
    assert metadata["settings"]["do_whole_word_mask"] is True
    assert metadata["num_examples"] == summary["instances"] == len(examples_of(tmp_path / "out.tfrecord"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"input: {tmp_path}/text.txt"
    assert lines[-1] == f"wrote {tmp_path}/out.tfrecord"
    table = {name.strip(): value.strip() for name, _, value in (line.partition("│") for line in lines) if value}
    assert table == {
        "documents": "2",
        "sentences": "6",
        "tokens": "24",
        "instances": str(summary["instances"]),
        "random next, of the instances": f"{100 * summary['random_next_share']:.2f} %",
        "masked, of the tokens that are not padding": f"{100 * summary['masked_share']:.2f} %",
        "padding, of all places": f"{100 * summary['padding_share']:.2f} %",
        "unknown ([UNK]), of the text's tokens": "0.00 %",
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("--input_file=none*", '--input_file: "none*" matches no file'),
        ("--output_file=text.txt", 'the output file "text.txt" is the input "'),
        ("--output_file=letters.vocab", 'the output file "letters.vocab" is the vocabulary file "'),
        ("--output_file=a,b,a", 'the output file "a" is given twice; the outputs need different names'),
        ("--output_file=a,", "an output file has no name; give at least one, and no comma too many"),
        ("--output_file=text.txt/a", 'text.txt" is not a folder'),
        ("--vocab_file=none", 'there is no vocabulary file "none"'),
        ("--vocab_file=text.txt", "the vocabulary of 7 tokens has no [UNK], [CLS], [SEP], [MASK], which pre-training"),
        ("--max_seq_length=4", "--max_seq_length=4 is too short"),
        ("--max_predictions_per_seq=17", "--max_predictions_per_seq=17 makes no sense with --max_seq_length=16"),
        ("--masked_lm_prob=1.5", "--masked_lm_prob=1.5 is no probability"),
        ("--num_workers=0", "--num_workers=0 processes build nothing; give 1 or more"),
        ("--num_shards=0", "--num_shards=0 files hold nothing; give 1 or more"),
        ("--output_file=a,b --num_shards=3", "--output_file names 2 files and --num_shards=3 makes several of one"),
        ("--output_file=a,b.gz", "--output_file names compressed files (.gz) and others; give all of them the same"),
        ("--dupe_factor=0", "--dupe_factor=0 passes over the corpus make no examples"),
        ("--dup_factor=3", "Unknown command line flag 'dup_factor'"),
        ("text.txt", '"text.txt" is not a flag'),
    ],
)
def test_mistakes_are_told_in_one_sentence_and_leave_nothing_behind(
    arguments, change, sentence, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [*arguments, *change.split()])
    with pytest.raises(SystemExit) as ending:
        run()
    assert ending.value.code == 1
    errors = capsys.readouterr().err
    assert errors.startswith(f"{PROGRAM}: ")
    assert sentence in errors
    assert len(errors.splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == ["letters.vocab", "text.txt"]


def test_all_missing_flags_are_named_at_once():
    with pytest.raises(ValueError, match="missing: --input_file, --vocab_file "):
        main([PROGRAM, "--output_file=x"])


def test_help_lists_the_flags(capsys):
    with pytest.raises(SystemExit):
        main([PROGRAM, "--help"])
    text = capsys.readouterr().out
    assert all(f"--{name}" in text or f"--[no]{name}" in text for name in define_flags())


def test_a_terminal_gets_bars(arguments, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(arguments)
    output = capsys.readouterr().out
    assert all(what in output for what in ("reading", "building instances", "writing"))


@pytest.mark.parametrize("way", [["data_prep/create_pretraining_data.py"], ["-m", "data_prep.create_pretraining_data"]])
def test_it_runs_from_the_root_of_the_project_without_installation(way):
    command = [sys.executable, *way, "--help"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert "--input_file" in result.stdout
