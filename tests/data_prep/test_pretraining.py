"""Building examples: equal to the original BERT's, number for number, and the surrounding checks."""

import dataclasses
import hashlib
import json
import os
import random
import re

import pytest
from tiny_data import SPECIAL_TOKENS, examples_of
from tokenized import read_documents

from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.corpus_checks import warn_about_casing
from bert_keras.data_prep.pretraining.instances import draw_instances
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, shuffle
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.storage.tokenizer.vocabulary import vocabulary_digest

TEXT = "ab c def\ngh i\njklm no\n\npq r\nstu\nvw x y z\nab\n\nno pq\nrs tu vw\n"

# Digest of all examples for sample_text.txt, computed by the original BERT's functions.
DIGESTS = """
uncased   128 20  5 12345 no  60  32  922  6207 0.5307716508365684   3e8413a8321a1602e1c1b0dac85abe594926d5a0e3781fb7b02f116bada43381
uncased   128 20 10 12345 no  118 64 1839 12371 0.12188555535949452  886af3c5b18299370a1f70e896ed0cf121feb995d1e680c645c4428d683bc815
uncased   128 20  5 12345 yes 64  37  978  6567 0.8008992049117778   683dffd60b68967975b81cf6231a233c4fb026c2cf91425883fd6347176b6a8c
uncased   512 77  5 12345 no  38  29 1277  8520 0.2916983415488864   b7e8fa3c48c7d2591a7daccb2e7635c37f2d1c82d040440da1d19a5a3b5167c8
uncased   32   5  3 7     no  74  59  367  2352 0.4714273550995479   f7740755b6c84f2290a5e86e84d93479cded94fc77a25d187d5cad648cdb9f48
synthetic 128 20  5 12345 no  109 78 2070 13935 0.019843164024680893 3de4d4a09807540f4906d934b40d54adb453f1fc8f2e736ab98f5920742ab772
synthetic 128 20  5 12345 yes 108 79 2046 13758 0.7031729284454902   71eff0917de725e085cef11c525cda077433149eacdd184815c1051df23b41b4
cased     128 20  5 12345 no  109 78 2070 13935 0.019843164024680893 8aaa003ad050727f322dc9b54b27f810e314ceae7794aa6496577b87aa05ee02
"""  # noqa: E501


def tokenizer_of(name, shared_dir):
    """Returns the tokenizer that a row of DIGESTS names."""
    if name == "uncased":
        return FullTokenizer(shared_dir("data/vocab/uncased.txt"))
    characters = [chr(code) for code in range(0x21, 0x7F)]
    tokens = [*SPECIAL_TOKENS, *characters, *(f"##{character}" for character in characters)]
    content = "".join(f"{token}\n" for token in tokens)
    assert hashlib.sha256(content.encode()).hexdigest().startswith("678ef28987dcd938")
    return FullTokenizer(tokens, do_lower_case=name != "cased")


def digest(instances, settings):
    lines = [json.dumps(each.features(settings), sort_keys=True, separators=(",", ":")) for each in instances]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.mark.parametrize("row", DIGESTS.strip().splitlines(), ids=lambda row: "-".join(row.split()[:6]))
def test_examples_and_draws_are_those_of_the_original(row, shared_dir):
    name, length, predictions, dupe_factor, seed, words, *counts, next_draw, expected = row.split()
    settings = PretrainingDataSettings(
        int(length),
        int(predictions),
        dupe_factor=int(dupe_factor),
        random_seed=int(seed),
        do_whole_word_mask=words == "yes",
    )
    tokenizer = tokenizer_of(name, shared_dir)
    file = str(shared_dir("golden/create_pretraining_data/sample_text.txt"))
    documents = read_documents([file], tokenizer)
    rng = random.Random(settings.random_seed)
    instances = list(draw_instances(documents, settings, MaskingVocabulary.from_vocab(tokenizer.vocab), rng))
    shuffle(instances, rng)
    assert [
        len(instances),
        sum(instance.is_random_next for instance in instances),
        sum(len(instance.masked_lm_ids) for instance in instances),
        sum(len(instance.tokens) for instance in instances),
    ] == [int(count) for count in counts]
    assert digest(instances, settings) == expected
    assert rng.random() == float(next_draw)
    if row == DIGESTS.strip().splitlines()[0]:
        _check_published_example(instances[0])


def _check_published_example(instance):
    """Checks the first example against a public log of the original BERT."""
    assert instance.is_random_next
    assert (len(instance.tokens), instance.first_length) == (128, 82)
    assert instance.tokens[:8] == [101, 2005, 2062, 2084, 1037, 103, 2039, 103]
    assert instance.tokens[32] == 30250  # drawn from the vocabulary
    positions = "5 7 12 13 14 24 32 55 59 60 71 94 103 104 105 109 112 114 117"
    ids = "3542 1996 4625 1999 1996 2011 1997 5472 1996 5532 1997 2008 1037 16465 10427 1998 2037 2000 2098"
    assert " ".join(map(str, instance.masked_lm_positions)) == positions
    assert " ".join(map(str, instance.masked_lm_ids)) == ids


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    return str(tmp_path / "text.txt")


def test_files_and_metadata(text, tmp_path, letters_vocab_file, letters_tokenizer):
    outputs = [str(tmp_path / "out" / name) for name in ("1.tfrecord", "0.tfrecord")]
    settings = PretrainingDataSettings(16, 4, dupe_factor=5, random_seed=8)
    summary = build_pretraining_data(
        Build([text], outputs, letters_tokenizer, settings, vocab_file=str(letters_vocab_file))
    )
    first, second = map(examples_of, outputs)
    assert 0 <= len(first) - len(second) <= 1
    examples = [*first, *second]
    assert len(examples) == summary["instances"] > 20
    assert {len(example["input_ids"]) for example in examples} == {16}
    assert {len(example["masked_lm_weights"]) for example in examples} == {4}
    num_real = sum(sum(example["input_mask"]) for example in examples)
    num_masked = sum(sum(example["masked_lm_weights"]) for example in examples)
    num_random = sum(sum(example["next_sentence_labels"]) for example in examples)
    expected = {
        "documents": 3,
        "sentences": 9,
        "tokens": 38,
        "instances": len(examples),
        "random_next_share": num_random / len(examples),
        "masked_share": num_masked / num_real,
        "padding_share": 1 - num_real / (16 * len(examples)),
        "unknown_share": 0.0,
    }
    assert summary == pytest.approx(expected)
    for output, examples in zip(outputs, (first, second), strict=True):
        assert read_metadata(output) == {
            "kind": "pretraining",
            "format_version": 1,
            "num_examples": len(examples),
            "num_bytes": os.path.getsize(output),
            "max_seq_length": 16,
            "max_predictions_per_seq": 4,
            "vocab_size": 57,
            "vocab_sha256": hashlib.sha256(letters_vocab_file.read_bytes()).hexdigest(),
            "do_lower_case": True,
            "strip_accents": True,
            "max_input_chars_per_word": 200,
            "order": "release",
            "settings": {
                "input_file": text,
                "output_file": ",".join(outputs),
                "vocab_file": str(letters_vocab_file),
                "do_lower_case": True,
                "strip_accents": True,
                **dataclasses.asdict(settings),
            },
            "summary": summary,
        }


def test_seed_decides_everything(text, tmp_path, letters_tokenizer):
    built = []
    for seed in (8, 8, 9):
        settings = PretrainingDataSettings(16, 4, random_seed=seed)
        build_pretraining_data(Build([text], [str(tmp_path / "out")], letters_tokenizer, settings))
        built.append((tmp_path / "out").read_bytes())
    assert built[0] == built[1] != built[2]


def test_log_has_decisions_and_the_first_examples(text, tmp_path, letters_tokenizer, messages):
    settings = PretrainingDataSettings(16, 1)
    build_pretraining_data(Build([text], [str(tmp_path / "new" / "x")], letters_tokenizer, settings))
    assert messages[0] == "max_predictions_per_seq=1 limits the masked tokens: 0.15 of 16 tokens would be 2"
    assert messages[1] == f"created the folder {tmp_path}/new"
    assert messages[2].startswith("0.0 MB of text: unfinished work needs about 0.0 MB in ")
    assert messages[3] == "read 3 documents, 9 sentences, 38 tokens from 1 file"
    assert re.match(
        rf"about \d\d examples: unfinished work needs about 0.0 MB in {tmp_path}/new, where .* GB are free",
        messages[4],
    )
    assert len(messages) == 8
    expected = set()
    for example in examples_of(tmp_path / "new" / "x"):
        tokens = letters_tokenizer.convert_ids_to_tokens(example["input_ids"][: sum(example["input_mask"])])
        label = letters_tokenizer.convert_ids_to_tokens(example["masked_lm_ids"])[0]
        kind = "random" if example["next_sentence_labels"] == [1] else "actual"
        place = f"{example['masked_lm_positions'][0]} {label}"
        expected.add(f"instance 1, {kind} next: {' '.join(tokens)}\n  masked: {place}")
    assert messages[5] in expected


def test_bad_input_and_output_stop_before_any_work(text, tmp_path, letters_tokenizer):
    with pytest.raises(ValueError, match='the output file ".*text.txt" is the input ".*text.txt"; choose another name'):
        build_pretraining_data(Build([text], [text], letters_tokenizer, PretrainingDataSettings()))
    with pytest.raises(FileNotFoundError, match='the input file "none" does not exist; check the path'):
        build_pretraining_data(Build(["none"], [str(tmp_path / "x")], letters_tokenizer, PretrainingDataSettings()))
    assert (tmp_path / "text.txt").read_text() == TEXT


def test_vocabulary_digest_is_that_of_the_file_and_sees_gaps(letters_vocab_file, letters_tokenizer):
    expected = hashlib.sha256(letters_vocab_file.read_bytes()).hexdigest()
    assert vocabulary_digest(letters_tokenizer.vocab) == expected
    assert vocabulary_digest({"a": 2, "b": 1}) == hashlib.sha256(b"\nb\na\n").hexdigest()


def test_casing_that_does_not_fit_the_vocabulary_is_warned_of(messages):
    cased = dict.fromkeys([*SPECIAL_TOKENS, "The", "Paris", "the", "of", *(f"w{i}" for i in range(100))], 0)
    uncased = dict.fromkeys([*SPECIAL_TOKENS, "a", "b", "the", "of", "ℝ", "<S>"], 0)
    uncaseable = dict.fromkeys([*SPECIAL_TOKENS, "力加", "北"], 0)
    for vocab, do_lower_case in ((cased, False), (uncased, True), (uncaseable, True), (uncaseable, False)):
        warn_about_casing(vocab, do_lower_case)
    assert messages == []
    warn_about_casing(cased, True)
    assert messages.pop() == (
        'text is lower-cased, but 2 of the 109 entries of the vocabulary have capital letters ("The"); '
        "for a cased vocabulary give do_lower_case=False"
    )
    warn_about_casing(uncased, False)
    assert messages.pop().endswith("become [UNK]; for an uncased vocabulary give do_lower_case=True")
