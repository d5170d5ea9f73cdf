"""Six languages from raw text to a model that fills masks: English, German, Chinese, Arabic, Hindi and Thai.

The files in `languages/` have one sentence a line and a blank line between documents. All facts to compare with come
from Unicode, or from this layout.
"""

import pathlib
import unicodedata

import pytest
from guards import at_least
from tiny_bert import make_config
from tiny_data import examples_of
from training_programs import run_pretraining

from bert_keras.data_prep import build_vocab, create_pretraining_data
from bert_keras.data_prep.text.decoding import join_tokens
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import files_of_vocabulary
from bert_keras.prediction import FillMask

FOLDER = pathlib.Path(__file__).parent / "languages"
LANGUAGES = at_least(5, (file.stem for file in FOLDER.glob("*.txt")))
# The flags of build_vocab.py, do_lower_case, strip_accents.
CASED = ("--nodo_lower_case",), False, False
UNCASED = (), True, True
ACCENTED = ("--nostrip_accents",), True, False
MARKS = {"german": "\u0308", "arabic": "\u064f", "hindi": "\u094d", "thai": "\u0e49"}  # each is of category Mn


def sentences_of(language):
    """Returns the documents of a language as lists of sentences."""
    text = (FOLDER / f"{language}.txt").read_text(encoding="utf-8")
    return [document.split("\n") for document in text.strip().split("\n\n")]


def without_spaces(text):
    return "".join(text.split())


def expected_text(text, do_lower_case, strip_accents):
    """Returns a text as the paper's authors prepare it, without white space, from Unicode's categories."""
    text = text.lower() if do_lower_case else text
    if strip_accents:
        text = "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")
    return without_spaces(text)


def prepare(folder, language, flags):
    """Writes a language's raw text, its vocabulary and its examples; returns the summaries of both programs."""
    join = "" if language == "chinese" else "\n" if language == "thai" else " "  # no mark ends a Thai sentence
    text = "\n\n".join(join.join(document) for document in sentences_of(language))
    (folder / "text.txt").write_text(text, encoding="utf-8")
    shared = ["program", f"--input_file={folder}/text.txt", f"--vocab_file={folder}/vocab.txt"]
    built = build_vocab.main([*shared, "--vocab_size=500", "--num_unused=0", *flags])
    more = ["--split_sentences", "--max_seq_length=48", "--max_predictions_per_seq=7", "--dupe_factor=2"]
    return built, create_pretraining_data.main([*shared, f"--output_file={folder}/train.tfrecord", *more])


@pytest.mark.parametrize(("flags", "do_lower_case", "strip_accents"), [CASED, UNCASED, ACCENTED])
@pytest.mark.parametrize("language", LANGUAGES)
def test_text_becomes_examples_without_unknown_words(tmp_path, language, flags, do_lower_case, strip_accents):
    built, examples = prepare(tmp_path, language, flags)
    assert (built["unknown_share"], built["unknown_character_share"], examples["unknown_share"]) == (0, 0, 0)
    casing = files_of_vocabulary(tmp_path / "vocab.txt").casing
    assert {name: fact.value for name, fact in casing.items()} == {
        "do_lower_case": do_lower_case,
        "strip_accents": strip_accents,
    }
    documents = sentences_of(language)
    assert (examples["documents"], examples["sentences"]) == (len(documents), sum(map(len, documents)))

    tokenizer = FullTokenizer.from_checkpoint(tmp_path)
    for sentence in sum(documents, []):
        tokens = tokenizer.tokenize(sentence)
        assert "[UNK]" not in tokens
        joined = "".join(token.removeprefix("##") for token in tokens)
        assert joined == expected_text(sentence, do_lower_case, strip_accents)
        assert without_spaces(join_tokens(tokens)) == joined
        assert tokenizer.tokenize(join_tokens(tokens)) == tokens
    vocabulary = "".join(tokenizer.vocab)
    assert any(unicodedata.category(char) == "Mn" for char in vocabulary) <= (not strip_accents)
    if language in MARKS:
        decomposed = unicodedata.normalize("NFD", vocabulary)
        assert (MARKS[language] in decomposed) == (not strip_accents)

    # The original tokens of an example are pieces of the text, and none of them is unknown.
    known = set(range(tokenizer.vocab_size)) - {tokenizer.unk_id}
    for example in examples_of(tmp_path / "train.tfrecord"):
        assert set(example["masked_lm_ids"]) <= known


def test_stripping_marks_takes_vowels_from_hindi_and_thai(tmp_path):
    tokenizers = {}
    for name, flags in (("stripped", ()), ("kept", ("--nostrip_accents",))):
        for language in ("hindi", "thai"):
            folder = tmp_path / name / language
            folder.mkdir(parents=True)
            prepare(folder, language, flags)
            tokenizers[name, language] = FullTokenizer.from_checkpoint(folder).basic_tokenizer
    # The sign of the vowel e and the joining sign are of category Mn; the sign of the long i is of category Mc.
    assert tokenizers["stripped", "hindi"].tokenize("\u0939\u0948 \u0926\u093f\u0932\u094d\u0932\u0940") == [
        "\u0939",
        "\u0926\u093f\u0932\u0932\u0940",
    ]
    assert tokenizers["kept", "hindi"].tokenize("\u0939\u0948") == ["\u0939\u0948"]
    # Thai "rice": the long a stays, the tone mark does not.
    assert tokenizers["stripped", "thai"].tokenize("\u0e02\u0e49\u0e32\u0e27") == ["\u0e02\u0e32\u0e27"]
    assert tokenizers["kept", "thai"].tokenize("\u0e02\u0e49\u0e32\u0e27") == ["\u0e02\u0e49\u0e32\u0e27"]


@pytest.mark.slow
@pytest.mark.parametrize("language", ["chinese", "hindi"])  # without spaces, and with marks
@pytest.mark.usefixtures("no_graphs")
def test_a_model_trained_on_the_examples_fills_masks_of_the_language(tmp_path, language):
    prepare(tmp_path, language, ("--nodo_lower_case",))
    vocab_file = tmp_path / "vocab.txt"
    num_tokens = len(vocab_file.read_text(encoding="utf-8").splitlines())
    config = make_config(vocab_size=num_tokens, num_hidden_layers=1, max_position_embeddings=48)
    config.to_json_file(tmp_path / "bert_config.json")
    flags = {
        "do_train": True,
        "input_file": tmp_path / "train.tfrecord",
        "bert_config_file": tmp_path / "bert_config.json",
        "vocab_file": vocab_file,
        "output_dir": tmp_path / "model",
        "max_seq_length": 48,
        "max_predictions_per_seq": 7,
        "train_batch_size": 8,
        "num_train_steps": 2,
        "num_warmup_steps": 1,
    }
    run_pretraining.main(["run_pretraining.py", *(f"--{name}={value}" for name, value in flags.items())])
    # Nothing but the run folder is needed: the casing came with the vocabulary.
    fill_mask = FillMask(tmp_path / "model")
    assert fill_mask.tokenizer.casing == (False, None)
    sentence = sentences_of(language)[0][0]
    tokens = FullTokenizer.from_checkpoint(tmp_path).tokenize(sentence)
    assert fill_mask.tokenizer.tokenize(sentence) == tokens
    [mask] = fill_mask(f"[MASK] {sentence}", top_k=num_tokens).masks
    assert sum(candidate.probability for candidate in mask) == pytest.approx(1, abs=1e-4)
    assert {candidate.token for candidate in mask} == set(fill_mask.tokenizer.vocab)
