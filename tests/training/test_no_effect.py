"""Settings that are refused because they have no effect really have none: a run with them is the run without them."""

import dataclasses
import json
import pathlib
import re
from typing import Any

import keras
import numpy as np
import pytest
from eager import without_graphs
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import TOKENS, make_config, write_model
from states import assert_bit_equal, weights_in
from tiny_bert import make_config as make_small_config
from tiny_bert import make_model
from tiny_classes import write_mrpc
from tiny_classes import write_start as write_classes
from training_runs import rows_of

import bert_keras
from bert_keras.modeling import PretrainingModel, save_checkpoint, weights_by_name
from bert_keras.programs.calls import actions_of
from bert_keras.programs.command import PROGRAMS, Program
from bert_keras.settings import effects
from bert_keras.settings.fields import Settings, setting_fields

_, classifier, few_shot, ner, pretraining, reranker, sentence_vectors, squad = PROGRAMS.values()
WORDS = TOKENS[5:18]
TEXTS = [f"{first} {second} {first}" for first in WORDS[:5] for second in WORDS[5:10]]
CLASSED = [(text, ["bad", "good"][number % 2]) for number, text in enumerate(TEXTS)]
SCORED = [(text, number % 7 / 2) for number, text in enumerate(TEXTS)]
SEVERAL = [{"text": text, "label": ["a", "b", "c"][number % 3 : 2]} for number, text in enumerate(TEXTS)]
CHOICES = [{"text": text, "one": "he ate", "two": "she was", "label": number % 2} for number, text in enumerate(TEXTS)]
SENTENCES = [(text.split(), ["B-LOC", "O", "B-PER"]) for text in TEXTS]
QUESTIONS = [
    {"id": str(number), "context": text, "question": "who is", "answers": {"text": [text.split()[1]]}}
    for number, text in enumerate(TEXTS)
]
for row in QUESTIONS:
    row["answers"]["answer_start"] = [row["context"].index(row["answers"]["text"][0])]
PAIRS = [{"anchor": text, "positive": " ".join(text.split()[1:])} for text in TEXTS]
LIKENESSES = [{"sentence1": a, "sentence2": "he was so hungry", "score": score} for a, score in SCORED]
QUERIES = [{"query": text, "positive": f"{text} is", "negative": "he ate"} for text in TEXTS]

SHORT = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 0.01, "max_steps": 2, "log_steps": 1}
START = {"init_checkpoint": "@start"}
TUNED = {**SHORT, **START}
TEXT_TO_CLASSES = {"train_data": CLASSED, "eval_data": CLASSED[:4], "predict_data": TEXTS[:3], **TUNED}
TAUGHT = {**TEXT_TO_CLASSES, "teacher": "@teacher"}
UNTAUGHT = {
    "temperature": 5.0,
    "label_loss_weight": 0.1,
    "soft_loss_weight": 3.0,
    "hidden_loss_weight": 2.0,
    "attention_loss_weight": 2.0,
    "teacher_layers": [1],
}
PRETRAINED = {
    "train_data": "@train.tfrecord",
    "eval_data": "@held_out.tfrecord",
    "bert_config_file": "@pretraining.json",
    "max_seq_length": 12,
    "max_predictions_per_seq": 3,
    "train_batch_size": 8,
    "max_eval_steps": 2,
    "learning_rate": 0.01,
    "num_train_steps": 2,
    "num_warmup_steps": 1,
    "log_steps": 1,
}


@dataclasses.dataclass(frozen=True)
class Context:
    """Arguments of a run, and settings that have no effect in it.

    A text that begins with @ is the path of one of the `files`. `logged` are columns of metrics.csv that may differ in
    the rows of training.
    """

    program: Program
    base: dict[str, Any]
    unused: dict[str, Any]
    logged: frozenset[str] = frozenset()

    @property
    def settings(self):
        """The settings of the run with both, with a word in place of the data."""
        program = self.program
        data = {f"{name}_data": f"{name}_file" for name in ("train", "eval", "predict", "unlabeled")}
        data |= {"train_data": "input_file"} if self.program is pretraining else {}
        given = {data.get(name, name): "data" if name in data else value for name, value in self.base.items()}
        given |= self.unused
        return program.settings.from_arguments(
            program.function, {**actions_of(program.settings, given.keys()), **given}
        )


CONTEXTS = {
    "a classifier of your own files": Context(
        classifier,
        TEXT_TO_CLASSES,
        {
            **UNTAUGHT,
            "lora_alpha": 4.0,
            "lora_targets": "key",
            "early_stopping": 1,
            "xnli_language": "fr",
            "data_dir": "@",
            "eval_share": 0.2,
            "tfds_eval_split": "train",
            "tfds_predict_split": "train",
            "label_separator": "o",
            "tpu_name": "mine",
            "tpu_zone": "here",
            "gcp_project": "project",
            "master": "grpc://10.0.0.1:8470",
            "num_tpu_cores": 4,
            "num_processes": 2,
            "process_id": 0,
        },
    ),
    "random weights to start from, and no evaluation": Context(
        classifier,
        {
            **{name: value for name, value in TEXT_TO_CLASSES.items() if name not in ("eval_data", "init_checkpoint")},
            "bert_config_file": "@start/bert_config.json",
            "vocab_file": "@start/vocab.txt",
        },
        {"new_head": True, "eval_steps": 1, "metric": "f1_macro", "tpu_zone": "here", "gcp_project": "project"},
    ),
    "frozen layers": Context(
        classifier, {**TEXT_TO_CLASSES, "freeze_layers": 1}, {"layer_decay": 0.5, "recompute": True, "lora_rank": 2}
    ),
    "LoRA": Context(classifier, {**TEXT_TO_CLASSES, "lora_rank": 2}, {"freeze_layers": 0}),
    "several labels": Context(
        classifier,
        {**TUNED, "train_data": SEVERAL, "eval_data": SEVERAL[:4], "kind": "multi_label"},
        {"class_weights": "1,2,3"},
    ),
    "multiple choice": Context(
        classifier,
        {**TUNED, "train_data": CHOICES, "eval_data": CHOICES[:4]}
        | {"kind": "multiple_choice", "choice_columns": ["one", "two"]},
        {"class_weights": "1,2"},
    ),
    "regression with a teacher": Context(
        classifier,
        {
            **TUNED,
            "train_data": SCORED,
            "eval_data": SCORED[:4],
            "kind": "regression",
            "teacher": "@teacher_of_numbers",
        },
        {"class_weights": "balanced", "label_smoothing": 0.3, "temperature": 5.0},
    ),
    "a teacher without labels and layers": Context(
        classifier,
        {**TAUGHT, "label_loss_weight": 0},
        {"label_smoothing": 0.3, "class_weights": "1,5", "teacher_layers": [1]},
        frozenset({"loss"}),
    ),
    "a teacher without its predictions": Context(
        classifier, {**TAUGHT, "soft_loss_weight": 0, "hidden_loss_weight": 1}, {"temperature": 5.0}
    ),
    "no label at all": Context(
        classifier,
        {**TUNED, "unlabeled_data": TEXTS, "predict_data": TEXTS[:3], "teacher": "@teacher"},
        {
            "label_loss_weight": 5.0,
            "label_smoothing": 0.3,
            "class_weights": "1,5",
            "calibrate": True,
            "eval_share": 0.2,
        },
    ),
    "evaluation alone": Context(
        classifier,
        {"init_checkpoint": "@teacher", "eval_data": CLASSED, "predict_data": TEXTS[:3], "do_train": False},
        {**UNTAUGHT, "teacher": "@teacher", "unlabeled_file": "@start/vocab.txt"},
    ),
    "a known task": Context(
        classifier,
        {**SHORT, "init_checkpoint": "@classes", "task_name": "mrpc", "data_dir": "@mrpc"}
        | {"do_train": True, "do_eval": True, "do_predict": True},
        {
            "text_column": "#2 String",
            "text_pair_column": "#1 String",
            "label_column": "#1 ID",
            "id_column": "#2 ID",
            "has_header": "false",
            "kind": "multiple_choice",
            "label_separator": "o",
            "choice_columns": ["#1 String", "#2 String"],
            "eval_share": 0.2,
        },
    ),
    "tags in JSON": Context(
        ner,
        {
            **TUNED,
            "train_data": SENTENCES,
            "eval_data": SENTENCES[:4],
            "predict_data": [text.split() for text in TEXTS],
        },
        {"word_column": 1, "tag_column": 0, "eval_share": 0.2},
    ),
    "SQuAD 1.1": Context(
        squad,
        {**TUNED, "train_data": QUESTIONS, "eval_data": QUESTIONS[:4], "predict_data": QUESTIONS[:5]}
        | {"doc_stride": 4, "max_query_length": 4},
        {"null_score_diff_threshold": -50.0},
    ),
    "vectors of scored pairs": Context(
        sentence_vectors,
        {**TUNED, "train_data": LIKENESSES, "eval_data": LIKENESSES[:4], "predict_data": TEXTS[:3]},
        {"scale": 3.0, "label_smoothing": 0.3, "new_head": True},
    ),
    "vectors of pairs": Context(
        sentence_vectors,
        {**TUNED, "train_data": PAIRS, "eval_data": PAIRS[:4], "predict_data": TEXTS[:3]},
        {"max_score": 9.0, "label_smoothing": 0.3, "new_head": True},
    ),
    "a listwise reranker": Context(
        reranker,
        {**TUNED, "train_data": QUERIES, "eval_data": QUERIES[:4], "predict_data": QUERIES[:5]},
        {"num_mined_negatives": 2, "label_smoothing": 0.3},
    ),
    "few labels and the encoder as it is": Context(
        few_shot,
        {**START, "max_seq_length": 16, "train_data": CLASSED, "eval_data": CLASSED[:4], "predict_data": TEXTS[:3]}
        | {"contrastive_epochs": 0},
        {"seed": 1, "learning_rate": 0.5},
    ),
    "names of classes alone": Context(
        few_shot,
        {**START, "max_seq_length": 16, "class_names": ["he ate", "she was"], "predict_data": TEXTS[:3]},
        {"class_weights": "1,5", "calibrate": True, "eval_share": 0.2},
    ),
    "pre-training": Context(
        pretraining,
        PRETRAINED,
        {
            "allow_partial_checkpoint": True,
            "generator_size": 0.5,
            "replaced_token_loss_weight": 5.0,
            "soft_loss_weight": 3.0,
            "cosine_loss_weight": 3.0,
            "temperature": 5.0,
        },
    ),
    "pre-training without evaluation": Context(
        pretraining,
        {name: value for name, value in PRETRAINED.items() if name != "eval_data"} | {"do_eval": False},
        {"eval_steps": 1, "eval_file": "@held_out.tfrecord"},
    ),
    "ELECTRA": Context(
        pretraining,
        {**PRETRAINED, "objective": "electra", "generator_size": 0.5},
        {"next_sentence_loss_weight": 5.0},
    ),
    "records without a sentence task": Context(
        pretraining, {**PRETRAINED, "train_data": "@no_sentences.tfrecord"}, {"next_sentence_loss_weight": 5.0}
    ),
    "a pre-trained model alone": Context(
        pretraining,
        {**PRETRAINED, "do_train": False, "init_checkpoint": "@pretrained"},
        {"teacher": "@pretrained", "soft_loss_weight": 3.0, "cosine_loss_weight": 3.0, "temperature": 5.0},
    ),
}


# Conditions whose setting is refused because it would harm a run or end it; and those of a library that tests lack.
WITHOUT_RUN = {
    ("unlabeled_file", "teacher"),  # its texts would count as labelled
    ("teacher", "objective"),  # the losses of a teacher need a masked LM alone
    ("choice_columns", "kind"),  # reads the columns, and takes the label for the number of one
    *((name, "tfds") for name in ("has_header", "skip_bad_rows", "eval_share", "choice_columns")),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory, write_records):
    """The folder of the files that the contexts name."""
    folder = tmp_path_factory.mktemp("files")
    keras.utils.set_random_seed(1)
    with without_graphs():
        write_model(folder / "start", PretrainingModel(make_config(hidden_size=16, hidden_act="gelu")))
        one_layer = {"num_hidden_layers": 1}
        write_fine_tuned(
            folder / "teacher", random_classifier(2, **one_layer), "classification", **OF_TEXTS, labels=["bad", "good"]
        )
        write_fine_tuned(
            folder / "teacher_of_numbers", random_classifier(1, **one_layer), "regression", **OF_TEXTS, labels=[]
        )
        write_classes(folder / "classes")
        write_mrpc(folder / "mrpc")
        config = make_small_config(**one_layer)
        config.to_json_file(folder / "pretraining.json")
        (folder / "pretrained").mkdir()
        config.to_json_file(folder / "pretrained" / "bert_config.json")
        save_checkpoint(folder / "pretrained" / "model.ckpt-1", weights_by_name(make_model(config)))
    write_records(folder / "train.tfrecord", 24)
    write_records(folder / "held_out.tfrecord", 11, seed=5)
    write_records(folder / "no_sentences.tfrecord", 24)
    described = {"kind": "pretraining", "format_version": 1, "settings": {"sentence_task": "none"}}
    (folder / "no_sentences.tfrecord.json").write_text(json.dumps(described))
    return folder


@pytest.fixture
def refused(monkeypatch):
    """The names of the settings that a run would refuse; it continues with them."""
    names = set()

    def collect(settings, reasons):
        names.update(name for name in reasons if effects.is_meant(settings, name))

    monkeypatch.setattr(Settings, "check_effects", lambda settings: collect(settings, dict(settings.without_effect())))
    for module in ("finetuning.run", "tagging.files", "pretraining.run"):
        monkeypatch.setattr(f"bert_keras.tasks.{module}.refuse", collect)
    return names


@pytest.mark.rare
@pytest.mark.slow  # two runs each
@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_what_is_refused_has_no_effect(context, files, refused, tmp_path):
    plain = run(context.program, context.base, files, tmp_path / "plain")
    assert not refused
    other = run(context.program, {**context.base, **context.unused}, files, tmp_path / "other")
    assert refused == context.unused.keys()
    assert_same(other, plain, context)


def run(program, settings, files, folder):
    given = {
        name: str(files / value[1:]) if isinstance(value, str) and value.startswith("@") else value
        for name, value in settings.items()
    }
    function = getattr(bert_keras, program.function)
    return function(output_dir=folder, verbose=False, **given)


def assert_same(run, expected, context):
    """Compares two runs: the metrics, also of each step, the predictions, and the model of a run that trains."""
    assert run.metrics == expected.metrics
    np.testing.assert_equal(run.predictions, expected.predictions)
    if not context.settings.do_train:
        return
    folders = [pathlib.Path(each.folder) for each in (run, expected)]
    rows, expected_rows = (
        [
            {name: value for name, value in row.items() if row["split"] == "eval" or name not in context.logged}
            for row in rows_of(folder)
        ]
        for folder in folders
    )
    assert rows == expected_rows
    if context.program is not pretraining:
        folders = [folder / "model" for folder in folders]
        described, expected_description = (json.loads((folder / "task.json").read_text()) for folder in folders)
        # It may name a setting that has no effect in its model either.
        assert {**described, **context.unused} == {**expected_description, **context.unused}
    assert_bit_equal(*map(weights_in, folders))


def test_every_condition_of_a_setting_has_a_run():
    conditions = set()
    for program in (classifier, few_shot, ner, pretraining, reranker, sentence_vectors, squad):
        fields = {field.name: field.metadata for field in setting_fields(program.settings)}
        for name, about in fields.items():
            others = {*about["needs"], *about["needs_any"], *about["unless"]}
            conditions |= {(name, other) for other in others & fields.keys()}
    tested = set()
    for context in CONTEXTS.values():
        for name, reason in effects.conditions(context.settings):
            if name in context.unused:
                tested |= {(name, other) for other in re.findall(r"\w+", str(reason))}
    assert conditions - tested == WITHOUT_RUN
