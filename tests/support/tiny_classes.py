"""Texts of an artificial language in which one word determines the class, and a model to start from."""

import random

import keras
import numpy as np
from known_models import make_config, write_model
from training_programs import run_classifier
from training_programs import run_few_shot as few_shot

from bert_keras.modeling import PretrainingModel, weights_by_name

CLASS_OF = {"good": "pos", "great": "pos", "fine": "pos", "bad": "neg", "poor": "neg", "sad": "neg"}
FILLERS = ["the", "film", "was", "very", "so", "then", "they", "left"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CLASS_OF, *FILLERS, "[unused0]", ".", "##s"]


def texts(num_texts, seed):
    """Returns pairs of text and class; a text has three to six words, one of which determines the class."""
    draw = random.Random(seed)
    made = []
    for _ in range(num_texts):
        words = [draw.choice(FILLERS) for _ in range(draw.randint(2, 5))]
        word = draw.choice(list(CLASS_OF))
        words.insert(draw.randint(0, len(words)), word)
        made.append((" ".join(words), CLASS_OF[word]))
    return made


def write_rows(path, header, rows, separator="\t"):
    """Writes a table without quotes and returns its path as a str; the header may be None."""
    lines = [] if header is None else [header]
    lines += [separator.join(map(str, row)) for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def write_texts(path, num_texts, seed):
    """Writes texts with their classes as CSV and returns the path as a str."""
    return write_rows(path, "text,label", texts(num_texts, seed), ",")


def write_mrpc(folder):
    """Writes the files of MRPC as distributed; the label says whether the first text is positive."""
    for seed, (name, count) in enumerate({"train": 32, "dev": 13, "test": 7}.items()):
        pairs = zip(texts(count, seed), texts(count, seed + 10), strict=True)
        rows = [(int(label == "pos"), 1, 2, text, other) for (text, label), (other, _) in pairs]
        first = "Quality"
        if name == "test":
            first, rows = "index", [(number, *row[1:]) for number, row in enumerate(rows)]
        write_rows(folder / f"{name}.tsv", f"{first}\t#1 ID\t#2 ID\t#1 String\t#2 String", rows)
    return folder


def write_start(folder):
    """Writes a model for this language, with the same random weights every time, and returns its folder."""
    keras.utils.set_random_seed(1)
    config = make_config(
        vocab_size=len(VOCABULARY), num_hidden_layers=1, hidden_size=16, hidden_act="gelu", max_position_embeddings=24
    )
    return write_model(folder, PretrainingModel(config), VOCABULARY)


def write_encoder(folder):
    """Writes an encoder that gives each token a vector that depends only on its word."""
    size = len(VOCABULARY)
    config = make_config(vocab_size=size, hidden_size=size, num_attention_heads=2, max_position_embeddings=24)
    model = PretrainingModel(config)
    for name, weight in weights_by_name(model).items():
        weight.assign(np.full(weight.shape, float(name.endswith("gamma"))))
    weights_by_name(model)["bert/embeddings/word_embeddings"].assign(np.eye(size))
    return write_model(folder, model, VOCABULARY)


def run(flags, *actions, program=run_classifier, **more):
    """Runs a program with flags by name, and large batches of evaluation; None omits a flag."""
    large = {"eval_batch_size": 64} if hasattr(program.settings, "eval_batch_size") else {}  # run_squad.py has none
    given = {**large, **flags, **more}
    given = {name: value for name, value in given.items() if value is not None}
    argv = [f"{program.name}.py", *(f"--{action}" for action in actions)]
    return program.main([*argv, *(f"--{name}={value}" for name, value in given.items())])


def run_few_shot(flags, *actions, **more):
    """Runs run_few_shot.py as `run` does."""
    return run(flags, *actions, program=few_shot, **more)


def table_in(path):
    """Returns a report of tab-separated values as a list of dicts."""
    head, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [dict(zip(head, row, strict=True)) for row in rows]
