"""Folders of well-known models and of public issues, rebuilt small from their description.

Each has the files and keys of the description, and weights of its class; `OUTCOMES` says how it opens.
"""

import json
import unicodedata

import numpy as np
import pytest
from foreign_answers import assert_same_answers, torch, transformers
from foreign_folders import (
    CONFIG,
    MODEL_JSON,
    PAIRS,
    TEXTS,
    TOKENIZER,
    VOCABULARY,
    Case,
    ModulesCase,
    random_peer,
    tokenizer_files,
    write_files,
    write_modules,
)

from bert_keras import open_model
from bert_keras.mistakes import Mistake

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("no_graphs")]

_NER = {"id2label": dict(enumerate(("O", "B-MISC", "I-MISC", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC")))}
_MARKED = {"id2label": dict(enumerate(("O", "B-PER", "I-PER", "X", "[CLS]", "[SEP]")))}
_STARS = {"id2label": {0: "1 star", 1: "2 stars", 2: "3 stars"}}
_OLD_MAP = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "sep", "pad", "cls", "mask")}


def _folder(family, end, form, config, values, cased=False, tokenizer="none", **more):
    """Returns a function that writes a folder: its class, its files, and the values of its two JSON files."""

    def write(folder):
        files = tokenizer_files(Case(family, "two classes", tokenizer, form, ("cased, config alone",) if cased else ()))
        for name, value in values.items():
            files[CONFIG].pop(name, None) if value is ... else files[CONFIG].update({name: value})
        if TOKENIZER in files and cased:
            files[TOKENIZER]["normalizer"]["lowercase"] = False
        files |= more
        extra = {key: value for key, value in config.items() if key in ("sentence_transformers", "_num_labels")}
        made = {key: value for key, value in config.items() if key not in extra}
        random_peer(family, end, **made).save_pretrained(folder)
        files[MODEL_JSON] |= extra
        write_files(folder, files)

    return write


def _swapped(write):
    """Two words of vocab.txt have the places of each other."""

    def changed(folder):
        write(folder)
        lines = (folder / VOCABULARY).read_text(encoding="utf-8").splitlines()
        first, second = lines.index("he"), lines.index("was")
        lines[first], lines[second] = "was", "he"
        (folder / VOCABULARY).write_text("\n".join(lines) + "\n", encoding="utf-8")

    return changed


def _with_weight(write):
    """The weights have an entry of the loss."""

    def changed(folder):
        from safetensors.torch import load_file, save_file

        write(folder)
        weights = load_file(folder / "model.safetensors")
        weights["loss_fct.weight"] = torch.ones(3)
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    return changed


_CLASSES, _TAGS = "ForSequenceClassification", "ForTokenClassification"
# Name -> how to write it, and the words of its refusal; None: it answers as in transformers.
OUTCOMES = {
    "transformers#48128, a cross encoder whose tokenizer gives no token types": (
        _folder(
            *("bert", _CLASSES, "new", {"num_labels": 2}),
            {"tokenizer_class": "DistilBertTokenizer", "model_input_names": ["input_ids", "attention_mask"]},
        ),
        None,
    ),
    "transformers#4393, vocab.txt and tokenizer.json differ": (
        _swapped(_folder("bert", _CLASSES, "both", {"num_labels": 2}, {}, tokenizer="BertTokenizer")),
        "remove the file that does not belong",
    ),
    "beto#16, cased Spanish with the old key max_len": (
        _folder(
            *("bert", _CLASSES, "old", {"num_labels": 2}),
            {"do_lower_case": False, "model_max_length": ..., "max_len": 16},
            cased=True,
        ),
        None,
    ),
    "BERT-NER#9, tags with X, [CLS] and [SEP]": (
        _folder("bert", _TAGS, "old", _MARKED, {"do_lower_case": False}, cased=True),
        None,
    ),
    "BERT-NER#21, lower-cased texts and labels without a dash": (
        _folder(
            *("bert", _TAGS, "old", {"id2label": {0: "O", 1: "per", 2: "loc"}}),
            {"max_len": 20, "do_lower_case": True},
        ),
        None,
    ),
    "FARM#428, weights with an entry of the loss": (
        _with_weight(_folder("bert", _CLASSES, "old", {"num_labels": 3}, {"do_basic_tokenize": True})),
        None,
    ),
    "distilbert-base-uncased-finetuned-sst-2-english": (
        _folder(
            *("distilbert", _CLASSES, "old", {"id2label": {0: "NEGATIVE", 1: "POSITIVE"}, "finetuning_task": "sst-2"}),
            {"model_max_length": 20, "do_lower_case": True},
        ),
        None,
    ),
    "dslim/bert-base-NER": (
        _folder(
            *("bert", _TAGS, "old", _NER | {"_num_labels": 9}),
            {"do_lower_case": False, "max_len": 20, "init_inputs": []},
            cased=True,
            **{"special_tokens_map.json": _OLD_MAP, "added_tokens.json": {}},
        ),
        None,
    ),
    "nlptown/bert-base-multilingual-uncased-sentiment": (
        _folder(
            *("bert", _CLASSES, "old", _STARS | {"finetuning_task": "sentiment-analysis"}),
            {"do_lower_case": True},
            **{"special_tokens_map.json": _OLD_MAP},
        ),
        None,
    ),
    "KB/bert-base-swedish-cased, strip_accents without lower case": (
        _folder(
            *("bert", _TAGS, "old", _NER),
            {"do_lower_case": False, "strip_accents": False, "max_len": 20},
            cased=True,
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_public_folder(tmp_path, name):
    write, refused_as = OUTCOMES[name]
    write(tmp_path)
    if refused_as:
        with pytest.raises(Mistake, match=refused_as):
            open_model(tmp_path)
        return
    [architecture] = json.loads((tmp_path / MODEL_JSON).read_text())["architectures"]
    assert_same_answers(open_model(tmp_path), tmp_path, f"For{architecture.partition('For')[2]}")


@pytest.mark.parametrize("name", [name for name in OUTCOMES if name.startswith("BERT-NER")])
def test_the_entities_of_a_tagger(tmp_path, name):
    """A pipeline gives the mean of the words' probabilities, and leaves out a dropped mark at the end."""
    OUTCOMES[name][0](tmp_path)
    find = transformers.pipeline(
        "token-classification", str(tmp_path), device="cpu", aggregation_strategy="first", ignore_labels=["O"]
    )
    tokenizer, num_compared = find.tokenizer, 0
    texts = [text for text in TEXTS if len(tokenizer(text)["input_ids"]) <= tokenizer.model_max_length]
    for text, answer in zip(texts, open_model(tmp_path)(texts), strict=True):
        found = find(text)
        without_mark = [(each.type, each.start, _end(each.text, each.start)) for each in answer.entities]
        assert without_mark == [(each["entity_group"], each["start"], _end(text[: each["end"]])) for each in found]
        for entity, expected in zip(answer.entities, found, strict=True):
            words = [word for word in answer.words if entity.start <= word.start < entity.end]
            mean = np.mean([word.probability for word in words])
            assert (mean, entity.probability) == (
                pytest.approx(expected["score"], abs=1e-5),
                min(word.probability for word in words),
            )
            num_compared += 1
    assert num_compared > 10


def _end(text, start=0):
    """Returns the place of the end of a text, without marks, that begins at `start`."""
    while unicodedata.category(text[-1]) == "Mn":
        text = text[:-1]
    return start + len(text)


@pytest.fixture
def sentence_transformers():
    return pytest.importorskip("sentence_transformers", reason="sentence-transformers, of the extra [peers]")


@pytest.mark.parametrize("length", [16, 24])
def test_a_cross_encoder_like_ms_marco(tmp_path, sentence_transformers, length):
    """cross-encoder/ms-marco-MiniLM-L-6-v2: an old key of the activation, and a length in each of two files."""
    config = {"num_labels": 1, "sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}
    values = {"model_max_length": length, "do_lower_case": True, "tokenizer_class": "BertTokenizer", "max_len": 12}
    length_file = {"sentence_bert_config.json": {"max_seq_length": 18, "do_lower_case": False}}
    _folder("bert", _CLASSES, "both", config, values, **length_file)(tmp_path)
    model = sentence_transformers.CrossEncoder(str(tmp_path), device="cpu")
    queries = [(first, [second, "walked"]) for first, second in PAIRS]
    for (query, texts), answer in zip(queries, open_model(tmp_path)(queries), strict=True):
        scores = dict(zip(texts, model.predict([(query, text) for text in texts]).tolist(), strict=True))
        assert {each.text: each.score for each in answer.texts} == pytest.approx(scores, abs=1e-5)


def test_vectors_like_all_minilm(tmp_path, sentence_transformers):
    """all-MiniLM-L6-v2: 256 tokens of the 512 that its network has places for, their mean, and vectors of length 1."""
    write_modules(tmp_path, ModulesCase("bert", "mean", True, "plain"), max_position_embeddings=512)
    for name, values in ("sentence_bert_config.json", {"max_seq_length": 256}), (CONFIG, {"model_max_length": 512}):
        (tmp_path / name).write_text(json.dumps(json.loads((tmp_path / name).read_text()) | values))
    texts = [*TEXTS, *(f"{'he was hungry . ' * 63} {end}" for end in ("he was", "walked he", "[SEP] " * 300))]
    texts += ["walked " * 127 + "is", "walked " * 126 + "is the", "walked " * 600]
    model = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    assert model.max_seq_length == 256
    assert max(len(model.tokenizer(text)["input_ids"]) for text in texts) > 512
    found = np.array([answer.vector for answer in open_model(tmp_path)(texts)])
    np.testing.assert_allclose(found, model.encode(texts), atol=1e-5)
