"""FullTokenizer makes the inputs of models, decodes ids, and reads and writes the folder of a model."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from known_models import TOKENS, random_model, write_model
from reference_tokenizer import odd_text, write_vocab

from bert_keras import FillMask, FullTokenizer
from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.data_prep.text.vocabulary_files import files_of_vocabulary, load_vocab
from bert_keras.tasks.tables.encoding import make_features
from bert_keras.tasks.tables.examples import Example

LETTERS = [chr(code) for code in range(ord("a"), ord("z") + 1)]


def equal(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
        assert found[name].dtype == np.int32


# Model inputs.


@pytest.mark.parametrize("sequence_length", [5, 8, 20])
def test_a_batch_has_the_numbers_of_the_programs(letters_tokenizer, sequence_length):
    pairs = [("abcdefgh"[:a], "klmnopqr"[:b]) for a in range(9) for b in range(9)]
    examples = [Example(str(number), *pair, "y") for number, pair in enumerate(pairs)]
    features = make_features(examples, letters_tokenizer, sequence_length)
    names = ("input_ids", "input_mask", "segment_ids")
    expected = {name: features[name].astype(np.int32) for name in names}
    equal(letters_tokenizer(pairs, sequence_length), expected)
    width = expected["input_mask"].sum(axis=1).max()
    shortened = {name: values[:, :width] for name, values in expected.items()}
    equal(letters_tokenizer(pairs, sequence_length, pad_to_longest=True), shortened)
    single = [encode_pair(letters_tokenizer, first, None, sequence_length)[0] for first, _ in pairs]
    ids = letters_tokenizer([first for first, _ in pairs], sequence_length)["input_ids"]
    assert ids.tolist() == [row + [0] * (sequence_length - len(row)) for row in single]


@given(st.lists(odd_text | st.tuples(odd_text, odd_text), max_size=4))
@example([])
@example(["", ("", ""), ("", "a"), ("a", "\u00ad")])
def test_without_a_length_nothing_is_cut(odd_tokenizer, texts):
    rows = [
        encode_pair(odd_tokenizer, *(text if isinstance(text, tuple) else (text, None)), max_seq_length=10_000)
        for text in texts
    ]
    features = odd_tokenizer(texts)
    width = max([2, *(len(ids) for ids, _, _ in rows)])
    assert features["input_ids"].shape == (len(texts), width)
    for number, (ids, segments, _) in enumerate(rows):
        padding = [0] * (width - len(ids))
        assert features["input_ids"][number].tolist() == ids + padding
        assert features["input_mask"][number].tolist() == [1] * len(ids) + padding
        assert features["segment_ids"][number].tolist() == segments + padding


@given(st.lists(st.tuples(odd_text, odd_text), max_size=3), st.sampled_from([None, 5, 9]))
def test_offsets_belong_to_the_ids(odd_tokenizer, pairs, sequence_length):
    features = odd_tokenizer(pairs, sequence_length, with_offsets=True)
    offsets = features.pop("offsets")
    equal(features, odd_tokenizer(pairs, sequence_length))
    assert offsets.dtype == np.int32
    assert offsets.shape == (*features["input_ids"].shape, 2)
    for number, pair in enumerate(pairs):
        ids, segments = features["input_ids"][number], features["segment_ids"][number]
        is_text = (features["input_mask"][number] == 1) & (ids != odd_tokenizer.cls_id) & (ids != odd_tokenizer.sep_id)
        assert not offsets[number][~is_text].any()
        for segment, text in enumerate(pair):
            tokens = odd_tokenizer.tokenize_with_offsets(text)
            of_segment = is_text & (segments == segment)
            found = zip(ids[of_segment], *offsets[number][of_segment].T, strict=True)
            expected = [(odd_tokenizer.vocab[token], start, end) for token, start, end in tokens]
            assert list(found) == expected[: of_segment.sum()]


def test_forms_of_texts_and_pairs(letters_tokenizer):
    singles = letters_tokenizer(["ab", "c"])
    for texts in (np.array(["ab", "c"]), (text for text in ("ab", "c")), [b"ab", "c"]):
        equal(letters_tokenizer(texts), singles)
    equal(letters_tokenizer("ab"), letters_tokenizer(["ab"]))
    pairs = letters_tokenizer([("ab", "x"), ("c", "yz")])
    for texts in (
        (["ab", "c"], ["x", "yz"]),
        [["ab", "x"], ["c", "yz"]],
        np.array([["ab", "x"], ["c", "yz"]]),
    ):
        equal(letters_tokenizer(texts), pairs)
    equal(letters_tokenizer(("ab", "x")), letters_tokenizer([("ab", "x")]))
    equal(letters_tokenizer([("ab", None)]), letters_tokenizer(["ab"]))
    equal(letters_tokenizer("ab", np.int64(8)), letters_tokenizer("ab", 8))


def test_columns_of_pandas(letters_tokenizer):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"first": ["ab", "c"], "second": ["x", "yz"]}, index=[7, 3])
    equal(letters_tokenizer(frame["first"]), letters_tokenizer(["ab", "c"]))
    pairs = letters_tokenizer([("ab", "x"), ("c", "yz")])
    equal(letters_tokenizer(frame), pairs)
    equal(letters_tokenizer((frame["first"], frame["second"])), pairs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5,), "^the texts are of type int; give a list of texts, or a tuple of two lists for pairs$"),
        (({"text": "a"},), "^the texts are of type dict; give a list"),
        ((["a", 5],), "^row 1 is 5, but a str is needed, or a tuple of two for a pair$"),
        ((["a", float("nan")],), "^row 1 is nan, but"),
        (([("a", "b", "c")],), r"^row 0 is \('a', 'b', 'c'\), but"),
        (([(None, "b")],), r"^row 0 is \(None, 'b'\), but"),
        ((("a", "b", "c"),), r"^row 0 is \('a', 'b', 'c'\), but"),
        (((["a"], ["b", "c"]),), "^the texts are a tuple of lists of 1, 2 texts, but a tuple has two texts, or two"),
        ((["a"], 4), r"^sequence_length is 4, but \[CLS\], \[SEP\] and a token of each text need 5 or more$"),
    ],
)
def test_mistakes(letters_tokenizer, arguments, message):
    with pytest.raises(ValueError, match=message):
        letters_tokenizer(*arguments)


def test_special_tokens():
    tokenizer = FullTokenizer(["[MASK]", "[UNK]", "[SEP]", "a", "[CLS]", "a"])
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.unk_id) == (4, 2, 0, 1)
    assert tokenizer.pad_id == 0
    assert tokenizer.tokens == ["[MASK]", "[UNK]", "[SEP]", "", "[CLS]", "a"]
    tokenizer = FullTokenizer(["[UNK]", "a"])
    assert (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id) == (None, None, None)
    with pytest.raises(ValueError, match=r"^the vocabulary lacks \[CLS\], \[SEP\]; give that of the model$"):
        tokenizer(["a"])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "^the vocabulary has no tokens; give a list of tokens, or the path of a vocab.txt$"),
        (["a", 5], "^token 1 of the vocabulary is 5, but must be a str of one line; give"),
        (["a\nb"], r"^token 0 of the vocabulary is 'a\\nb', but must be a str of one line; give"),
    ],
)
def test_lists_that_are_not_a_vocabulary(tokens, message):
    with pytest.raises(ValueError, match=message):
        FullTokenizer(tokens)


# Decoding.


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("[CLS] un ##aff ##able , he said . [SEP] no [SEP] [PAD] [PAD]", "unaffable, he said. no"),
        ("it ' s 5 % ( or 6 ) : yes !", "it's 5% (or 6): yes!"),
        ("the [MASK] of [UNK] .", "the [MASK] of [UNK]."),
        ("我 love 中 国 ， 你 ?", "我 love 中国，你?"),
        ("안 녕", "안 녕"),
        ("##able ## a", "##able ## a"),
        ("", ""),
    ],
)
def test_decoded_text(tokens, text):
    tokens = tokens.split()
    tokenizer = FullTokenizer(["[UNK]", *dict.fromkeys(tokens)])
    ids = tokenizer.convert_tokens_to_ids(tokens)
    assert tokenizer.decode(ids) == tokenizer.decode(np.array(ids, np.int32)) == text


def test_an_id_outside_the_vocabulary_is_named(letters_tokenizer):
    with pytest.raises(ValueError, match="^the id 57 is not in the vocabulary, whose ids are 0 to 56; use"):
        letters_tokenizer.decode([5, 57])


@given(odd_text)
def test_decoded_text_has_the_same_ids(odd_tokenizer, text):
    ids = [id_ for id_ in odd_tokenizer.encode(text) if id_ != odd_tokenizer.unk_id]
    assert odd_tokenizer.encode(odd_tokenizer.decode(ids)) == ids


# Folders of models.


@pytest.mark.parametrize("casing", [(True, None), (False, None), (True, False)])
def test_a_saved_tokenizer_is_read_back(tmp_path, messages, casing):
    tokenizer = FullTokenizer([*TOKENS, "a", "", "Paris"], *casing)
    tokenizer.save(tmp_path / "new" / "model")
    file = tmp_path / "new" / "model" / "vocab.txt"
    assert load_vocab(file) == {**tokenizer.vocab, "": len(TOKENS) + 1}
    assert files_of_vocabulary(file).casing["do_lower_case"].value == casing[0]
    read = FullTokenizer.from_checkpoint(tmp_path / "new" / "model")
    assert read.casing == tokenizer.casing == casing
    assert read.tokens == tokenizer.tokens
    assert read("Été in Paris")["input_ids"].tolist() == tokenizer("Été in Paris")["input_ids"].tolist()
    assert any(line.endswith("tokenizer_config.json)") for line in messages)
    with pytest.raises(ValueError, match=r"vocab.txt is there already; nothing is overwritten, so give another"):
        tokenizer.save(tmp_path / "new" / "model")


def test_predictors_read_a_saved_tokenizer(tmp_path, messages):
    folder = write_model(tmp_path / "model", random_model())
    (folder / "vocab.txt").unlink()
    FullTokenizer(TOKENS, do_lower_case=True, strip_accents=False).save(folder)
    tokenizer = FillMask(folder).tokenizer
    assert (tokenizer.tokens, tokenizer.casing) == (TOKENS, (True, False))
    assert f"lower-casing text (set in {folder / 'tokenizer_config.json'})" in messages


def test_the_vocabulary_of_a_model_is_found_from_each_of_its_paths(tmp_path, messages):
    run = tmp_path / "run"
    folder = run / "model"
    folder.mkdir(parents=True)
    write_vocab(folder / "vocab.txt", "[UNK]", *LETTERS)
    for name in ("bert_model.ckpt.index", "model.safetensors"):
        (folder / name).write_bytes(b"")
    for path in (run, folder, str(folder / "bert_model.ckpt"), folder / "model.safetensors", folder / "vocab.txt"):
        assert FullTokenizer.from_checkpoint(path).encode("A b") == [1, 2]
    assert messages == [f"lower-casing text (guessed from the words of {folder / 'vocab.txt'})"] * 5
    assert FullTokenizer.from_checkpoint(run, do_lower_case=False).encode("A b") == [0, 2]


def test_a_folder_without_a_vocabulary_is_named(tmp_path):
    (tmp_path / "run").mkdir()
    write_vocab(tmp_path / "vocab.txt", "[UNK]", "a")
    for path in (tmp_path / "run", tmp_path / "missing", tmp_path / "missing.ckpt"):
        with pytest.raises(
            FileNotFoundError, match=f"^{path} has no vocab.txt, and no tokenizer.json .*; give the folder of a"
        ):
            FullTokenizer.from_checkpoint(path)
