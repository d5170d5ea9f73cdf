"""The description of a build: what changes the records is in their metadata and in the digest of unfinished work."""

import json

import pytest
from tiny_data import SPECIAL_TOKENS

from bert_keras.data_prep.create_pretraining_data import main
from bert_keras.data_prep.pretraining import build as builder
from bert_keras.data_prep.pretraining.build import Build
from bert_keras.data_prep.pretraining.flags import define_flags
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.records.reading import check_same_vocabulary
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.data_prep.text.tokenization import FullTokenizer

LINES = ["Ein Häuschen im Wald. Der Weg ist lang!", "ab cd ef", "gh ij", "今天天气好", "abcabcabcabcabc ab", "ab cd ef"]
TEXT = "".join(
    "\n".join([*LINES, letter, "", "# Head", "ab cd", f"AB é {letter}", "", f"cd {letter}", "", "gh ij", "", ""])
    for letter in "xyz"
)
PIECES = [*SPECIAL_TOKENS, *"abcdefghijklmnopqrstuvwxyzäéEDWHA.!#今天气好"]
PIECES += [f"##{piece}" for piece in PIECES[5:]]
# Another value of each flag, with flags that it needs. None: the flag names no setting of the examples.
OTHERS = {
    "input_file": ["--input_file={folder}/other.txt"],
    "output_file": None,
    "vocab_file": ["--vocab_file={folder}/other/vocab.txt"],
    "do_lower_case": ["--nodo_lower_case"],
    "strip_accents": ["--nostrip_accents"],
    "eval_output_file": ["--eval_output_file={folder}/eval", "--eval_share=0.4"],
    "num_shards": None,
    "compression": ["--compression=gzip"],
    "work_dir": None,
    "num_workers": ["--num_workers=2"],
    "dry_run": None,
    "text_field": ["--input_file={folder}/rows.jsonl", "--text_field=other"],
    "documents": ["--documents=line"],
    "split_sentences": ["--split_sentences"],
    "join_lines": ["--split_sentences", "--join_lines"],
    "min_document_words": ["--min_document_words=3"],
    "remove_duplicates": ["--remove_duplicates=exact"],
    "eval_share": ["--eval_share=0.2", "--eval_output_file={folder}/eval"],
    "max_seq_length": ["--max_seq_length=17"],
    "max_predictions_per_seq": ["--max_predictions_per_seq=2"],
    "masked_lm_prob": ["--masked_lm_prob=0.3"],
    "short_seq_prob": ["--short_seq_prob=0.9"],
    "dupe_factor": ["--dupe_factor=1"],
    "random_seed": ["--random_seed=1"],
    "do_whole_word_mask": ["--do_whole_word_mask"],
    "chinese_words": ["--chinese_words={folder}/words.txt", "--do_whole_word_mask"],
    "masked_spans": ["--masked_spans=ngram"],
    "replace_prob": ["--replace_prob=0.5"],
    "keep_prob": ["--keep_prob=0.2"],
    "dynamic_masking": ["--dynamic_masking"],
    "sentence_task": ["--sentence_task=sentence_order"],
    "strict_utf8": ["--strict_utf8"],
}
# The facts that files decide.
FILES = {
    "longest word": ["--vocab_file={folder}/short/vocab.txt"],
    "lines that repeat": ["--vocab_file={folder}/repeated/vocab.txt", "--replace_prob=0"],
    "other words of Chinese": ["--chinese_words={folder}/more.txt", "--do_whole_word_mask"],
}


@pytest.fixture
def build(tmp_path, monkeypatch):
    """Return a function that builds records; it returns them, their metadata and the name of unfinished work."""
    texts = {"text": TEXT, "other": TEXT.replace("cd", "dc"), "words": "今天\n", "more": "天气\n今天\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    rows = ({"text": "ab cd\nef gh", "other": "gh ij\nkl mn"}, {"text": "cd ef\nab", "other": "ij kl\nno"})
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows * 2))
    vocabularies = {
        "vocab": PIECES,
        "other": [*PIECES[:5], *reversed(PIECES[5:])],
        "short": PIECES,
        "repeated": [PIECES[-1], *PIECES[1:]],
    }
    for name, pieces in vocabularies.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    (tmp_path / "short" / "tokenizer_config.json").write_text('{"max_input_chars_per_word": 8}')
    folders = []
    find = builder._find_work_dir
    monkeypatch.setattr(builder, "_find_work_dir", lambda *args: folders.append(find(*args)) or folders[-1])

    def run(*flags):
        shared = ["--input_file={folder}/text.txt", "--vocab_file={folder}/vocab/vocab.txt", "--dupe_factor=2"]
        shared += ["--max_seq_length=16", "--max_predictions_per_seq=3", "--short_seq_prob=0.3"]
        output = tmp_path / "out"
        main(["program", f"--output_file={output}", *(flag.format(folder=tmp_path) for flag in [*shared, *flags])])
        return output.read_bytes(), metadata_of(output), folders[-1]

    return run


def metadata_of(output):
    """Return the metadata without what the examples themselves decide."""
    return {
        name: value
        for name, value in read_metadata(output).items()
        if name not in ("summary", "num_examples", "num_bytes")
    }


def test_each_flag_is_tried():
    assert [*OTHERS] == [*define_flags()]


@pytest.mark.parametrize("name", [*(name for name, flags in OTHERS.items() if flags), *FILES])
def test_what_changes_the_records_is_in_their_metadata_and_starts_from_the_beginning(build, name):
    before = {
        "text_field": ["--input_file={folder}/rows.jsonl"],
        "join_lines": ["--split_sentences"],
        "eval_share": ["--eval_share=0.5", "--eval_output_file={folder}/eval"],
        "lines that repeat": ["--replace_prob=0"],
        "chinese_words": ["--do_whole_word_mask"],
        "other words of Chinese": OTHERS["chinese_words"],
    }.get(name, [])
    records, metadata, folder = build(*before)
    other_records, other_metadata, other_folder = build(*({**OTHERS, **FILES}[name]))
    assert other_records != records or name == "strict_utf8"
    assert other_metadata != metadata
    assert other_folder != folder


def test_the_order_of_replacements_starts_from_the_beginning(letters_vocab_file, tmp_path):
    """Two vocabularies have the same tokens by id, but repeated lines change the order of random replacements."""
    pieces = letters_vocab_file.read_text().split()
    folders = []
    for first in pieces[-1], pieces[-2]:
        tokenizer = FullTokenizer([first, *pieces[1:]])
        described = Build([str(letters_vocab_file)], [str(tmp_path / "out")], tokenizer, PretrainingDataSettings(16, 3))
        folders.append(builder._find_work_dir(described, [str(tmp_path / "out")]))
    assert folders[0] != folders[1]


@pytest.mark.parametrize("longest", [3, 100, 199])
def test_records_for_other_longest_words_are_not_mixed(letters_tokenizer, longest):
    other = FullTokenizer(letters_tokenizer.tokens)
    other.wordpiece_tokenizer.max_input_chars_per_word = longest
    assert other.facts == {**letters_tokenizer.facts, "max_input_chars_per_word": longest}
    with pytest.raises(ValueError, match="a and b were built with different values of max_input_chars_per_word"):
        check_same_vocabulary("a", letters_tokenizer.facts, "b", other.facts)
    check_same_vocabulary("a", {}, "b", other.facts)
