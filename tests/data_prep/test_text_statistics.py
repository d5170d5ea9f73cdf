"""`--dry_run` reports what the build then gives, warns about text that trains badly, and writes nothing."""

import dataclasses
import pathlib
import random

import pytest

from bert_keras.data_prep import create_pretraining_data
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.statistics import LENGTHS, measure_text
from bert_keras.mistakes import Mistake

SETTINGS = PretrainingDataSettings(16, 4, dupe_factor=4)


@pytest.fixture
def text(tmp_path):
    """A text of 60 documents of 1 to 8 sentences of 1 to 9 words of one token."""
    rng = random.Random(0)
    documents = [
        "".join(" ".join(rng.choices("abcdefg", k=rng.randint(1, 9))) + "\n" for _ in range(rng.randint(1, 8)))
        for _ in range(60)
    ]
    (tmp_path / "text.txt").write_text("\n".join(documents))
    return str(tmp_path / "text.txt")


@pytest.mark.parametrize("sentence_task", ["next_sentence", "sentence_order", "none"])
def test_the_expectation_comes_true(text, letters_tokenizer, tmp_path, sentence_task):
    settings = dataclasses.replace(SETTINGS, sentence_task=sentence_task)
    output = str(tmp_path / "out.tfrecord")
    summary = build_pretraining_data(Build([text], [output], letters_tokenizer, settings))
    found = measure_text(Build([text], [], letters_tokenizer, settings))
    counts = ("documents", "sentences", "tokens", "unknown_share")
    assert {name: getattr(found, name) for name in counts} == {name: summary[name] for name in counts}
    # Both draw, each with its own random numbers.
    assert found.instances == pytest.approx(summary["instances"], rel=0.1)
    assert found.padding_share == pytest.approx(summary["padding_share"], abs=0.05)
    framing = 16 * summary["instances"]
    assert found.num_bytes == pytest.approx((tmp_path / "out.tfrecord").stat().st_size - framing, rel=0.12)


def test_lengths_and_shares_of_a_small_text(letters_tokenizer, tmp_path):
    lengths = [[1, 4], [5, 20], [600]]
    documents = ("\n".join(" ".join("a" * length) for length in document) for document in lengths)
    (tmp_path / "text.txt").write_text("\n\n".join(documents) + " ?")
    found = measure_text(Build([str(tmp_path / "text.txt")], [], letters_tokenizer, SETTINGS))
    assert found.lengths == [2, 1, 0, 1, 0, 0, 0, 0, 1]
    assert len(found.lengths) == len(LENGTHS) + 1
    assert found.single_share == pytest.approx(1 / 3)
    assert found.unknown_share == pytest.approx(1 / 631)
    # Of the 20 and 601 tokens, an example has 13.
    assert found.cut_share == pytest.approx((7 + 588) / 631)
    # Examples of one sentence keep its beginning or its end or a part of the middle, never 13 tokens four times.
    assert 1 - (30 + 4 * 13) / 631 <= found.unused_share < 1


def test_warnings(letters_tokenizer, tmp_path, messages):
    (tmp_path / "text.txt").write_text("a b ? \n\n" + "c " * 90 + "\n")
    measure_text(Build([str(tmp_path / "text.txt")], [], letters_tokenizer, SETTINGS))
    assert any("1.1 % of the tokens are [UNK]: the vocabulary does not fit the text" in line for line in messages)
    assert any("of the tokens are in no example; their sentences are too long" in line for line in messages)
    assert any("the text seems to have one paragraph a line" in line for line in messages)
    (tmp_path / "text.txt").write_text("a\n\nb\n\nc\n\n")
    measure_text(
        Build([str(tmp_path / "text.txt")], [], letters_tokenizer, dataclasses.replace(SETTINGS, max_seq_length=64))
    )
    assert any("of all positions are padding, because documents are short" in line for line in messages)


@pytest.mark.slow
def test_the_number_of_workers_changes_no_count(text, letters_tokenizer):
    options = TextOptions(documents="line", split_sentences=True)
    found = [
        measure_text(Build([text], [], letters_tokenizer, SETTINGS, text_options=options, num_workers=number))
        for number in (1, 2)
    ]
    assert len({(one.documents, one.sentences, one.tokens, one.instances) for one in found}) == 1


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--output_file=text.txt", 'the output file "text.txt" is the input "text.txt"'),
        ("--eval_output_file=eval.tfrecord", "eval_output_file is given without eval_share"),
        ("--output_file=a --eval_share=0.5", "eval_share is given without eval_output_file"),
    ],
)
def test_the_mistakes_of_a_build_are_those_of_a_dry_run(text, letters_vocab_file, tmp_path, monkeypatch, flag, message):
    monkeypatch.chdir(tmp_path)
    flags = ["program", "--input_file=text.txt", f"--vocab_file={letters_vocab_file}", "--dry_run", *flag.split()]
    with pytest.raises(Mistake, match=f"^{message}"):
        create_pretraining_data.main(flags)


def test_one_file_needs_no_list_and_a_path_no_text(text, letters_tokenizer, tmp_path):
    one = build_pretraining_data(Build(pathlib.Path(text), tmp_path / "one", letters_tokenizer, SETTINGS))
    assert one == build_pretraining_data(Build([text], [f"{tmp_path}/two"], letters_tokenizer, SETTINGS))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for number in (0, "2", 1.5, None):
        with pytest.raises(Mistake, match="^num_workers=.* is not a valid number of processes; give 1 or more$"):
            Build([text], [], letters_tokenizer, SETTINGS, num_workers=number)


def test_the_program_writes_nothing(text, letters_vocab_file, tmp_path, capsys):
    folder = tmp_path / "missing"
    flags = [f"--input_file={text}", f"--vocab_file={letters_vocab_file}", "--max_seq_length=16", "--dry_run"]
    with pytest.raises(ValueError, match=f"the folder {folder} does not exist; create it"):
        create_pretraining_data.main(["program", *flags, "--max_predictions_per_seq=3", f"--work_dir={folder}"])
    before = sorted(path.name for path in tmp_path.iterdir())
    found = create_pretraining_data.main(["program", *flags, "--max_predictions_per_seq=3", f"--work_dir={tmp_path}"])
    assert found["documents"] == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    shown = capsys.readouterr().out
    assert "expected examples" in shown
    assert "sentences of up to 8 tokens" in shown
