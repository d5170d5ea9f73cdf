"""The other functions that train: tagging, question answering and pre-training, on data in memory."""

import json
import os
import pathlib

import pytest
import tiny_squad
from known_models import TOKENS, make_config, write_model
from tiny_classes import VOCABULARY, texts
from tiny_classes import write_start as write_classes

from bert_keras import EntityTagger, FillMask, QuestionAnswerer, pretrain, train_classifier, train_ner, train_squad
from bert_keras.modeling import PretrainingModel

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("no_graphs")]
SHORT = {"train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 0.01, "verbose": False}
WORDS, TAGS = ["paris", "is", "the", "capital"], ["B-LOC", "O", "O", "O"]


def test_sentences_in_memory(tmp_path):
    start = write_model(tmp_path / "start", PretrainingModel(make_config(num_hidden_layers=1)), TOKENS)
    words, tags = [WORDS] * 8, [TAGS] * 8
    result = train_ner(
        (words, tags),
        [{"words": WORDS, "tags": TAGS}],
        [WORDS],
        output_dir=tmp_path / "run",
        init_checkpoint=start,
        max_seq_length=12,
        **SHORT,
    )
    assert {"precision", "recall", "f1", "accuracy"} <= result.metrics.keys()
    (answer,) = result.predictions
    assert answer["words"] == WORDS
    assert len(answer["predicted_tags"]) == len(answer["confidences"]) == len(WORDS)
    assert isinstance(result.predictor(), EntityTagger)
    with pytest.raises(ValueError, match=r'^train_data row 1: "tags" is \[\], but must be a list of'):
        train_ner(
            [(WORDS, TAGS), (WORDS, [])], output_dir=tmp_path / "new", init_checkpoint=start, max_seq_length=12, **SHORT
        )


def rows_of(paragraphs):
    """Returns the questions of SQuAD's paragraphs as rows."""
    return [
        {"id": question["id"], "context": paragraph["context"], "question": question["question"], "answers": answers}
        for paragraph in paragraphs
        for question in paragraph["qas"]
        for answers in [question.get("answers", [])]
    ]


def test_questions_in_memory(tmp_path):
    rows = rows_of(tiny_squad.paragraphs(8, 1))
    start = tiny_squad.write_start(tmp_path / "start")
    settings = {"max_seq_length": 24, "max_query_length": 8, "doc_stride": 8, **SHORT}
    # A row of an article in a file and a row in memory have the same features.
    result = train_squad(rows, rows[:4], rows[4:6], output_dir=tmp_path / "run", init_checkpoint=start, **settings)
    assert result.predictions.keys() == {row["id"] for row in rows[4:6]}
    assert {"exact_match", "f1"} <= result.metrics.keys()
    assert isinstance(result.predictor(), QuestionAnswerer)
    again = train_squad(eval_data=rows[:4], output_dir=tmp_path / "run", verbose=False)
    assert again.metrics == pytest.approx(result.metrics)
    assert again.predictions.keys() == {row["id"] for row in rows[:4]}
    bad = [{**rows[0], "id": "q7", "answers": []}]
    with pytest.raises(
        ValueError,
        match="^train_data row 0 has no answer; to train on it, give version_2_with_negative for SQuAD 2.0",
    ):
        train_squad(bad, output_dir=tmp_path / "new", init_checkpoint=start, **settings)


@pytest.fixture
def of_words(tmp_path):
    """The config, the vocabulary and the settings of a pre-training run of two steps."""
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY), encoding="utf-8")
    config = make_config(vocab_size=len(VOCABULARY), num_hidden_layers=1, max_position_embeddings=24)
    config.to_json_file(tmp_path / "bert_config.json")
    files = {"bert_config_file": tmp_path / "bert_config.json", "vocab_file": tmp_path / "vocab.txt"}
    lengths = {"max_seq_length": 16, "max_predictions_per_seq": 3}
    return {**files, **lengths, "train_batch_size": 4, "num_train_steps": 2, "num_warmup_steps": 1, "verbose": False}


def test_documents_in_memory(tmp_path, of_words, messages):
    documents = [[text for text, _ in texts(6, seed)] for seed in range(4)]
    result = pretrain(documents, documents[:2], output_dir=tmp_path / "run", dupe_factor=2, **of_words)
    assert "masked_lm_accuracy" in result.metrics
    assert result.history[-1]["step"] == 2
    assert isinstance(result.predictor(), FillMask)
    records = pathlib.Path(result.settings["input_file"])
    assert json.loads(records.with_name(records.name + ".json").read_text())["settings"]["dupe_factor"] == 2
    # The run has all that its evaluation needs, and a run that continues takes the vocabulary of its start.
    (tmp_path / "vocab.txt").rename(tmp_path / "moved.txt")
    again = pretrain(eval_data=documents[:2], output_dir=tmp_path / "run", dupe_factor=2, verbose=False)
    assert again.metrics == pytest.approx(result.metrics, rel=1e-5)
    start = {**of_words, "bert_config_file": None, "vocab_file": None, "init_checkpoint": tmp_path / "run"}
    pretrain(documents, output_dir=tmp_path / "continued", dupe_factor=1, **{**start, "max_seq_length": 12}).predictor()
    kept = json.loads((tmp_path / "continued" / "tokenizer_config.json").read_text())
    assert kept["model_max_length"] == 16  # the start has learned these positions, and no others of the 24
    (tmp_path / "moved.txt").rename(tmp_path / "vocab.txt")
    # The same text is not built again, and another setting makes other records.
    changed = os.stat(records).st_mtime_ns
    pretrain(documents, documents[:2], output_dir=tmp_path / "run", dupe_factor=2, **of_words)
    assert os.stat(records).st_mtime_ns == changed
    pretrain(documents, output_dir=tmp_path / "other", dupe_factor=1, **of_words)
    assert records.name not in os.listdir(tmp_path / "other" / "data")
    (tmp_path / "tokenizer_config.json").write_text('{"max_input_chars_per_word": 3}')
    pretrain(documents, output_dir=tmp_path / "of_short_words", dupe_factor=2, **of_words)
    assert records.name not in os.listdir(tmp_path / "of_short_words" / "data")
    (tmp_path / "tokenizer_config.json").unlink()
    # Records and files of text are data, too.
    # One may be records, and the other texts with settings of examples.
    pretrain(records, documents[:2], output_dir=tmp_path / "of_records", dupe_factor=1, **of_words)
    pretrain(records.parent / "train_data-*.jsonl", output_dir=tmp_path / "of_text", dupe_factor=2, **of_words)
    assert os.listdir(tmp_path / "of_text" / "data")[0].removesuffix(".json") == records.name
    with pytest.raises(
        ValueError,
        match=r"^dupe_factor is for texts, but train_data is the name of records, .*record; leave it out, or",
    ):
        pretrain(records, output_dir=tmp_path / "new", dupe_factor=2, **of_words)
    with pytest.raises(ValueError, match=r"^missing: vocab_file "):
        pretrain(documents, output_dir=tmp_path / "new", **{**of_words, "vocab_file": None})
    assert not (tmp_path / "new").exists()


def test_several_runs_in_one_process_do_not_disturb_each_other(tmp_path):
    """A run on two devices, in half precision and with several tries leaves nothing for the next."""
    start = write_classes(tmp_path / "start")
    data, settings = (texts(8, 1), texts(8, 2)), {"init_checkpoint": start, "max_seq_length": 12, **SHORT}

    def train(name, **more):
        return train_classifier(*data, output_dir=tmp_path / name, **{**settings, **more})

    before = train("before")
    tries = train("tries", learning_rate=[0.01, 0.02], num_seeds=2)
    assert len(os.listdir(tmp_path / "tries" / "tries")) == 4
    assert tries.history == []
    assert tries.predictor()("the film was good").label in ("neg", "pos")
    for number in range(2):
        train(f"half{number}", precision="bfloat16", strategy="mirrored", deterministic=True)
    after = train("after")
    assert after.metrics == pytest.approx(before.metrics, rel=1e-5)
    assert after.history[-1]["loss"] == pytest.approx(before.history[-1]["loss"], rel=1e-5)


CHANGES = {
    "weight_decay_rate": 0.9,
    "adam_beta_1": 0.5,
    "adam_beta_2": 0.5,
    "adam_bias_correction": True,
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


def test_each_setting_changes_the_model(tmp_path):
    start, losses = write_classes(tmp_path / "start"), {}
    settings = {"init_checkpoint": start, "max_seq_length": 12, "max_steps": 3}
    for name, value in {"nothing": None, **CHANGES}.items():
        given = {**SHORT, **settings} | ({name: value} if value is not None else {})
        given.pop("num_train_epochs")
        run = train_classifier(texts(32, 1), texts(8, 2), output_dir=tmp_path / name, **given)
        assert value is None or run.settings[name] == value
        losses[name] = run.metrics["loss"]
    assert len(set(losses.values())) == len(losses), losses
