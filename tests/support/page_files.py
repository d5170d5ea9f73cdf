"""Tiny models and data under the names that the pages use."""

import dataclasses
import json
import pathlib
import re
import string

import tiny_squad
from fine_tuned_models import FINE_TUNED, random_classifier, write_fine_tuned, write_foreign
from known_models import small_config, write_model
from tiny_classes import CLASS_OF, FILLERS, texts, write_mrpc, write_rows
from tiny_variants import SWITCHES

from bert_keras.modeling import (
    ClassifierModel,
    PretrainingModel,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
# As many entries as the released uncased vocabulary, so that configs with the names of released models fit.
VOCAB_SIZE = 30_522
_WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CLASS_OF, *FILLERS, *"0123456789", *string.ascii_lowercase),
    *(f"##{letter}" for letter in string.ascii_lowercase + string.digits),
    *(set(string.punctuation) - {"\\"}),
    *("paris", "is", "capital", "of", "france", "he", "she", "hungry", "ate", "london"),
]
VOCABULARY = [*_WORDS, *(f"[unused{number}]" for number in range(VOCAB_SIZE - len(_WORDS)))]
SENTENCES = "He was hungry.\nSo he ate.\n\nParis is the capital.\nShe is in Paris.\n\nThe film was good.\nThey left.\n"
RELEASED = re.compile(r"\b\w+_L-(?:12|24)_[\w-]+|\bbert-base-[\w-]+|\bminilm\b")
# By default, the program for vectors reads four layers; first steps freezes two.
NUM_LAYERS = {
    "docs/guides/distillation.md": 12,
    "docs/guides/extract_features.md": 4,
    "docs/tutorials/first_steps.md": 2,
}


def write_files(page, text, folder):
    """Writes every file or folder that a text names and that the tests know, for a page."""
    known = {**FILES, **FILES_OF_PAGES.get(page, {})}
    # build_vocab.py does not overwrite a file.
    built = re.findall(r"build_vocab\.py(?:[^\n]|\\\n)*--vocab_file=(\S+)", text)
    for name, make in known.items():
        if name not in built and re.search(rf"(?<![\w/.-]){re.escape(name)}(?![\w-])", text):
            make(folder / name)
    for name in sorted({match[0] for match in RELEASED.finditer(text)} - known.keys()):
        write_released(folder / name, NUM_LAYERS.get(page, 1))


def write_released(folder, num_layers=1):
    """Writes a model in the format of a released one."""
    write_model(folder, PretrainingModel(_config(num_layers)), VOCABULARY)


def _config(num_layers=1):
    changes = {"vocab_size": VOCAB_SIZE, "max_position_embeddings": 512, "num_hidden_layers": num_layers}
    return small_config(**changes)


def _text(content):
    def make(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")

    return make


def _rows(header, make_row, separator="\t"):
    def make(path):
        rows = [make_row(number, *pair) for number, pair in enumerate(texts(40, len(path.name)))]
        write_rows(path, header, rows, separator)

    return make


def _folder(**makers):
    def make(path):
        for name, make_file in makers.items():
            make_file(path / name.replace("__", "."))

    return make


def _pairs(header, labels, columns=2):
    """Returns a maker of a GLUE file: id, other columns, two texts, label."""
    others = ["-"] * (columns - 2)

    def make_row(number, text, _):
        return [number, *others, text, text[::-1], *([labels[number % len(labels)]] if labels else [])]

    return _rows(header, make_row)


def _mnli(path):
    genres = ("contradiction", "entailment", "neutral")
    header = "\t".join(["index", *"bcdefgh", "sentence1", "sentence2"])
    files = {"train": genres, **{f"dev_{part}": genres for part in ("matched", "mismatched")}}
    for name, labels in {**files, "test_matched": (), "test_mismatched": ()}.items():
        _pairs(f"{header}\tgold_label" if labels else header, labels, 9)(path / f"{name}.tsv")


def _xnli(path):
    genres = ("contradiction", "entailment", "neutral")
    _rows("a\tb\tlabel", lambda n, text, _: [text, text, genres[n % 3]])(path / "multinli" / "multinli.train.de.tsv")
    for name in ("dev", "test"):
        make = _rows("language\tlabel\t-\t-\t-\t-\ta\tb", lambda n, text, _: ["de", genres[n % 3], *"----", text, text])
        make(path / f"xnli.{name}.tsv")


def _squad(with_impossible, has_answers=True):
    def make(path):
        made = tiny_squad.paragraphs(8, len(path.name), with_impossible)
        if not with_impossible:
            made = [{**paragraph, "qas": [qa for qa in paragraph["qas"] if qa["answers"]]} for paragraph in made]
        path.parent.mkdir(parents=True, exist_ok=True)
        tiny_squad.write_squad(path, made if has_answers else tiny_squad.without_answers(made))

    return make


def _foreign(path):
    """Writes a classifier as transformers does."""
    model = random_classifier(2, vocab_size=VOCAB_SIZE, num_hidden_layers=1, max_position_embeddings=512)
    write_foreign(path, "classification", model, tokens=VOCABULARY, id2label={"0": "neg", "1": "pos"})


def _run_of(task, **changes):
    """Returns a maker of a run folder of a fine-tuned model."""

    def make(path):
        make_model, settings = FINE_TUNED[task]
        write_fine_tuned(path, make_model(), task, **{**settings, **changes})

    return make


def _checkpoint(name, make_model):
    """Returns a maker of a folder with only the weights of a model, as runs of google-research/bert name them."""

    def make(path):
        path.mkdir()
        save_checkpoint(path / name, weights_by_name(make_model(_config())))

    return make


def _distilbert(path):
    """Writes a DistilBERT as transformers does."""
    model = PretrainingModel(dataclasses.replace(_config(), **SWITCHES["distilbert"]))
    weights = {name: w for name, w in weights_by_name(model).items() if "pooler" not in name and "seq" not in name}
    save_safetensors(path, weights, model.config)
    _text("".join(f"{token}\n" for token in VOCABULARY))(path / "vocab.txt")


def _tiny_config(path):
    _config().to_json_file(path)


def _records(path):
    """Writes pre-training examples of 128 tokens."""
    from bert_keras import FullTokenizer
    from bert_keras.data_prep.pretraining.build import Build, PretrainingDataSettings, build_pretraining_data

    vocab = path.with_name("vocab_of_records.txt")
    _text("".join(f"{token}\n" for token in VOCABULARY))(vocab)
    source = path.with_name(f"text_of_{path.name}.txt")
    _text(SENTENCES)(source)
    build_pretraining_data(Build([str(source)], [str(path)], FullTokenizer(str(vocab)), PretrainingDataSettings()))


_TAGGED_WORDS = ("Peter", "B-PER"), ("Blackburn", "I-PER"), ("flew", "O"), ("to", "O"), ("London", "B-LOC"), (".", "O")
_TAGGED = _text("-DOCSTART- x x O\n\n" + ("".join(f"{word} x x {tag}\n" for word, tag in _TAGGED_WORDS) + "\n") * 16)
_LABELLED = _rows("text,label", lambda n, text, label: [text, label], ",")
_SHOP = _run_of("classification", is_pair=False, labels=["delivery", "product", "return"])
# Name in the pages -> a function that writes a tiny file or folder of this kind.
FILES = {
    "bert_demo": _folder(
        model=write_released,
        messages=_SHOP,
        questions_minilm=_run_of("question_answering"),
        entities_minilm=_run_of("token_classification"),
    ),
    "vocab.txt": _text("".join(f"{token}\n" for token in VOCABULARY)),
    "bert_config.json": _tiny_config,
    "text.txt": _text(SENTENCES),
    "texts.txt": _text("He was hungry.\nSo he ate.\n"),
    "texts": _folder(a__txt=_text(SENTENCES), b__txt=_text(SENTENCES)),
    "articles": _folder(a__txt=_text(SENTENCES), b__txt=_text(SENTENCES)),
    "reviews.jsonl": _text("".join(json.dumps({"review": SENTENCES}) + "\n" for _ in range(3))),
    "text": _folder(a__txt=_text(SENTENCES)),
    "words.txt": _text("cardio\n"),
    "blimp": _folder(agreement__tsv=_text("he is hungry\the is london\nshe ate\tshe paris\n")),
    "glue": _folder(MRPC=write_mrpc, MNLI=_mnli, AX=_folder(diagnostic__tsv=_pairs("index\tsentence1\tsentence2", []))),
    "MRPC": write_mrpc,
    "conll2003": _folder(train__txt=_TAGGED, dev__txt=_TAGGED, test__txt=_TAGGED),
    "train-v1.1.json": _squad(False),
    "dev-v1.1.json": _squad(False),
    "train-v2.0.json": _squad(True),
    "dev-v2.0.json": _squad(True),
    "questions.json": _squad(True, has_answers=False),
    "sentences.txt": _text("He was hungry.\nSo he ate.\n"),
    "reviews.csv": _rows("review,label", lambda n, text, label: [text, label], ","),
    "train.csv": _LABELLED,
    "small.csv": _LABELLED,
    "mrpc_output": _checkpoint("model.ckpt-343", lambda config: ClassifierModel(config, 2)),
    "pairs.csv": _rows("sentence1,sentence2,score", lambda n, text, label: [text, text, n / 10], ","),
}
_QUIZ = "question,a,b,c,d,right"
_REVIEWS = _rows(None, lambda n, text, label: ["good" if label == "pos" else "bad", text])
FILES_OF_PAGES = {
    "docs/guides/check_labels.md": {"more.csv": _rows("text", lambda n, text, label: [text], ",")},
    "docs/guides/classification.md": {
        name: _rows("nr\tquestion\tanswer\tis_right", lambda n, text, label: [n, text, text, label])
        for name in ("train.tsv", "dev.tsv")
    },
    "docs/guides/classification_options.md": {
        "prices.csv": _rows("description,price", lambda n, text, label: [text, n / 10], ","),
        "tickets.csv": _rows("text,label", lambda n, text, label: [text, f"{label};x" if n % 2 else label], ","),
        "quiz.csv": _rows(_QUIZ, lambda n, text, label: [text, *"abcd", n % 4], ","),
    },
    "docs/guides/distillation.md": {"more.csv": _rows("text", lambda n, text, label: [text], ",")},
    "docs/guides/domain_model.md": {"reviews": _folder(a__txt=_text(SENTENCES)), "dev.csv": _LABELLED},
    "docs/guides/faq.md": {"old_run": _checkpoint("model.ckpt-1000", PretrainingModel)},
    "docs/guides/hugging_face.md": {
        "sentiment_hf": _foreign,
        "sentiments.csv": _rows("text,label", lambda n, text, label: [text, label], ","),
    },
    "docs/guides/languages.md": {"xnli": _xnli},
    "docs/guides/migrating.md": {
        "old_run": _checkpoint("model.ckpt-400000", PretrainingModel),
        "records": _folder(a__tfrecord=_records),
    },
    "docs/guides/ner.md": {
        "new.jsonl": _text(json.dumps({"words": ["Peter", "flew"]}) + "\n"),
    },
    "docs/guides/predict.md": {
        "shop": _SHOP,
        "pairs_model": _run_of("classification"),
        "new.tsv": _rows("question1\tquestion2", lambda n, text, label: [text, text]),
    },
    "docs/guides/predict_from_python.md": {
        "shop": _SHOP,
        "million_messages.txt": _text("my parcel never came\n" * 40),
    },
    "docs/guides/pretraining.md": {"train.txt": _text(SENTENCES), "held_out.txt": _text(SENTENCES)},
    "docs/guides/distributed.md": {"train.tfrecord": _records, "held_out.tfrecord": _records},
    "docs/guides/variants.md": {"distilbert": _distilbert},
    "docs/guides/your_own_task.md": {"train.txt": _REVIEWS, "dev.txt": _REVIEWS},
}
