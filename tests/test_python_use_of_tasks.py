"""The functions that train, with every form of data and the settings of the pages, each in short runs."""

import itertools
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pandas
import pytest
import tensorflow as tf
from blocks import blocks_of
from keras_user import CONFIG, TOKENS, write_pretrained
from page_files import write_files

from bert_keras import (
    open_model,
    pretrain,
    train_classifier,
    train_ner,
    train_squad,
)

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXTS = [
    f"{who} {verb} {word}"
    for who in ("they", "ada", "bob", "eve")
    for verb in ("left", "was")
    for word in ("good", "bad")
]
LABELS = ["pos" if text.endswith("good") else "neg" for text in TEXTS]
SHORT = {"max_seq_length": 12, "train_batch_size": 8, "learning_rate": 0.01, "max_steps": 3, "verbose": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pretrained(tmp_path_factory.mktemp("models") / "tiny")


def write_table(path):
    pandas.DataFrame({"text": TEXTS, "label": LABELS}).to_csv(path, index=False)
    return path


FORMS = {
    "lists": lambda path: [list(row) for row in zip(TEXTS, LABELS, strict=True)],
    "an array": lambda path: np.array([TEXTS, LABELS]).T,
    "tuples": lambda path: list(zip(TEXTS, LABELS, strict=True)),
    "dicts in a generator": lambda path: (
        {"text": text, "label": label} for text, label in zip(TEXTS, LABELS, strict=True)
    ),
    "two lists": lambda path: (TEXTS, LABELS),
    "arrays": lambda path: (np.array(TEXTS), np.array(LABELS)),
    "series by column": lambda path: {"text": pandas.Series(TEXTS), "label": pandas.Series(LABELS)},
    "a table": lambda path: pandas.DataFrame({"text": TEXTS, "label": LABELS}),
    "a dataset": lambda path: tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)),
    "a dataset of batches": lambda path: tf.data.Dataset.from_tensor_slices({"text": TEXTS, "label": LABELS}).batch(3),
    "a file": write_table,
}


@pytest.mark.usefixtures("no_graphs")
class TestData:
    def test_every_form_gives_the_same_model(self, folder, tmp_path):
        metrics = {}
        for number, (name, make) in enumerate(FORMS.items()):
            train, dev = (make(tmp_path / f"{use}.csv") for use in ("train", "dev"))
            run = train_classifier(train, dev, output_dir=tmp_path / str(number), init_checkpoint=folder, **SHORT)
            metrics[name] = run.metrics
        assert len({json.dumps(values, default=float) for values in metrics.values()}) == 1, metrics

    def test_pairs_and_numbers(self, folder, tmp_path):
        texts = zip(TEXTS, TEXTS[1:] + TEXTS[:1], strict=True)
        pairs = [(text, other, float(number % 3)) for number, (text, other) in enumerate(texts)]
        run = train_classifier(
            pairs,
            pairs,
            [pair[:2] for pair in pairs],
            output_dir=tmp_path / "pairs",
            init_checkpoint=folder,
            kind="regression",
            **SHORT,
        )
        answers = run.predictor()([pair[:2] for pair in pairs])
        assert [row["prediction"] for row in run.predictions] == pytest.approx(
            [answer.value for answer in answers], abs=1e-4
        )
        errors = [answer.value - pair[2] for answer, pair in zip(answers, pairs, strict=True)]
        assert run.metrics["rmse"] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-4)


CHANGES = {
    "weight_decay_rate": 0.9,
    "adam_beta_1": 0.5,
    "adam_beta_2": 0.5,
    "adam_epsilon": 0.1,
    "clip_norm": 0.01,
    "learning_rate_schedule": "cosine",
    "max_steps": 4,
    "label_smoothing": 0.3,
    "ema_decay": 0.5,
    "warmup_proportion": 0.5,
    "layer_decay": 0.5,
    "freeze_layers": 1,
    "lora_rank": 2,
}


@pytest.mark.usefixtures("no_graphs")
class TestSettings:
    def test_each_setting_changes_the_model(self, folder, tmp_path):
        losses = {}
        for name, value in {"nothing": None, **CHANGES}.items():
            settings = SHORT | ({name: value} if value is not None else {})
            run = train_classifier(
                (TEXTS, LABELS), (TEXTS, LABELS), output_dir=tmp_path / name, init_checkpoint=folder, **settings
            )
            assert value is None or run.settings[name] == value
            losses[name] = run.metrics["loss"]
        assert len(set(losses.values())) == len(losses), losses

    def test_evaluations_end_training_and_old_checkpoints_go(self, folder, tmp_path):
        settings = SHORT | {"max_steps": 12, "eval_steps": 2, "save_checkpoints_steps": 2, "learning_rate": 1e-12}
        run = train_classifier(
            (TEXTS, LABELS),
            (TEXTS, LABELS),
            output_dir=tmp_path / "run",
            init_checkpoint=folder,
            keep_checkpoint_max=1,
            early_stopping=1,
            **settings,
        )
        steps = [row["step"] for row in run.history if row["split"] == "eval"]
        assert steps == [2, 4]
        assert len(list((tmp_path / "run").glob("model.ckpt-*.index"))) == 1

    def test_a_search_reports_each_try(self, folder, tmp_path):
        run = train_classifier(
            (TEXTS, LABELS),
            (TEXTS, LABELS),
            output_dir=tmp_path / "search",
            init_checkpoint=folder,
            **SHORT | {"learning_rate": [0.01, 0.001]},
            num_seeds=2,
        )
        assert len((tmp_path / "search" / "tries.tsv").read_text().splitlines()) == 1 + 4
        assert open_model(run.folder)("they left good").label in ("neg", "pos")


class TestTasks:
    def test_words_get_tags(self, folder, tmp_path):
        rows = [
            ([name, "lives", "in", place, "."], ["B-PER", "O", "O", "B-LOC", "O"])
            for name, place in itertools.product(["ada", "bob", "eve"], ["rome", "oslo", "bonn"])
        ]
        run = train_ner(
            rows,
            rows,
            [words for words, _ in rows],
            output_dir=tmp_path / "ner",
            init_checkpoint=folder,
            **SHORT | {"max_steps": 60},
        )
        assert run.metrics["f1"] == 1
        assert [row["predicted_tags"] for row in run.predictions] == [tags for _, tags in rows]
        find = run.predictor(labels={"PER": "person"})
        (person, place) = find("Ada lives in Rome.").entities
        assert (person.text, person.type, person.start, person.end) == ("Ada", "person", 0, 3)
        assert (place.text, place.type) == ("Rome", "LOC")
        assert sorted(find.labels) == ["LOC", "person"]
        limit = max(person.probability, place.probability)
        assert len(find("Ada lives in Rome.", threshold=limit).entities) == 1

    def test_questions_get_answers(self, folder, tmp_path):
        rows = [
            {"context": f"{name} lives in {place} .", "question": question, "answer": answer}
            for name, place in itertools.product(["ada", "bob", "eve"], ["rome", "oslo", "bonn"])
            for question, answer in (("who lives", name), ("where lives", place))
        ]
        run = train_squad(
            rows,
            rows,
            [{key: row[key] for key in ("context", "question")} for row in rows],
            output_dir=tmp_path / "squad",
            init_checkpoint=folder,
            doc_stride=4,
            max_query_length=5,
            **SHORT | {"max_seq_length": 16, "max_steps": 100},
        )
        assert run.metrics["exact_match"] > 40
        assert len(run.predictions) == len(rows)
        find = run.predictor()
        answer = find(("where lives", rows[0]["context"]), top_k=2)
        assert len(answer.n_best) == 2
        assert rows[0]["context"][answer.start : answer.end] == answer.text
        pairs = pandas.DataFrame(rows)
        texts = [answer.text for answer in find.pipe(zip(pairs["question"], pairs["context"], strict=True))]
        assert texts == list(run.predictions.values())

    @pytest.mark.usefixtures("no_graphs")
    def test_documents_pretrain_a_model(self, folder, tmp_path):
        CONFIG.to_json_file(tmp_path / "bert_config.json")
        documents = [
            [f"{who} lives in {place} .", f"{who} was good ."]
            for who, place in itertools.product(["ada", "bob", "eve"], ["rome", "oslo", "bonn"])
        ]
        settings = {
            "bert_config_file": tmp_path / "bert_config.json",
            "vocab_file": folder / "vocab.txt",
            "max_seq_length": 16,
            "max_predictions_per_seq": 3,
            "dupe_factor": 2,
            "train_batch_size": 4,
            "num_train_steps": 6,
            "eval_batch_size": 64,
            "num_warmup_steps": 1,
            "learning_rate": 0.01,
            "verbose": False,
        }
        run = pretrain(documents, documents, output_dir=tmp_path / "run", **settings)
        text = pathlib.Path(tmp_path / "text.txt")
        text.write_text("\n".join("\n".join(document) + "\n" for document in documents))
        again = pretrain(str(text), str(text), output_dir=tmp_path / "of_file", **settings)
        assert again.metrics == run.metrics
        other = pretrain(
            documents,
            documents,
            output_dir=tmp_path / "other",
            masked_lm_loss_weight=0.5,
            next_sentence_loss_weight=0,
            **settings,
        )
        assert other.metrics["loss"] == pytest.approx(0.5 * other.metrics["masked_lm_loss"], rel=1e-5)
        guesses = run.predictor()("ada lives in [MASK] .", top_k=len(TOKENS)).masks[0]
        assert sum(guess.probability for guess in guesses) == pytest.approx(1, abs=1e-5)


COMPARE = """
import json
import numpy as np
from bert_keras import open_model

texts = ["my parcel never arrived", "You charged my card twice!", "The lamp does not work."]
models = [open_model("shop"), open_model("shop_export", format="saved_model", device="cpu")]
print(json.dumps([[answer.probabilities for answer in model(np.array(texts))] for model in models]))
"""


def test_the_script_of_the_page_runs_with_a_new_process_for_each_block(tmp_path):
    page = "docs/guides/train_from_python.md"
    train, use = [block.text for block in blocks_of(page) if block.kind in ("python", "commands")][:2]
    write_files(page, "minilm", tmp_path)
    (tmp_path / "data_prep").symlink_to(ROOT / "data_prep")
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])

    def run(*arguments):
        command = [sys.executable, *arguments]
        environment = os.environ | {"PYTHONPATH": paths}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    described, last, label = run("-c", train)
    assert "shop', loss " in described
    assert "'step': 60, 'split': 'eval'" in last
    first, second = run("-c", use)
    assert first.split()[0] == label
    assert first.endswith("  my parcel never arrived")
    assert second.endswith("  You charged my card twice!")
    export = 'from bert_keras import export_model; export_model("shop", export_dir="shop_export", verbose=False)'
    assert run("-c", export) == []
    of_program = run(str(ROOT / "predict.py"), "--model_dir=shop_export", "The lamp does not work.")
    of_run, of_export = json.loads(run("-c", COMPARE)[0])
    assert first.split()[1] == f"{of_run[0][label]:.2f}"
    assert float(of_program[1].split()[0]) == pytest.approx(max(of_run[2].values()), abs=1e-4)
    for shares, expected in zip(of_export, of_run, strict=True):
        assert shares == pytest.approx(expected, abs=1e-5)
