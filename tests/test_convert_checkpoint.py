"""Conversion from flags to files, and adding words to a model."""

import dataclasses
import json
import os
import pathlib
import re
import resource

import numpy as np
import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    random_answerer,
    random_classifier,
    randomise,
    small_config,
    write_fine_tuned,
)
from tiny_bert import make_config, make_model

import convert_checkpoint
from bert_keras.modeling import BertConfig, TokenClassifierModel, open_checkpoint, save_checkpoint, weights_by_name
from bert_keras.modeling.checkpoints.conversion import Contents, largest_difference, run_network, write_contents
from bert_keras.prediction import open_model
from bert_keras.prediction.loading.model_files import open_model_files
from bert_keras.storage import paths
from bert_keras.training.run_dir import RunDir

TENSORFLOW_FILES = ["bert_config.json", "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index"]
TENSORFLOW_FILES += ["tokenizer_config.json", "vocab.txt"]
SAFETENSORS_FILES = ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]
TABLE, OUTPUT_BIAS = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"

PIECES = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "heart", "##y", "angio", "##gram"]
PIECES += [f"w{i}" for i in range(30)]


@pytest.fixture
def said(messages, monkeypatch):
    """Return a function that returns the log lines so far."""
    # The program would log only to the screen.
    monkeypatch.setattr(convert_checkpoint, "open_console", lambda: None)
    return lambda: "\n".join(messages)


@pytest.fixture
def model_dir(tmp_path):
    """A released model: checkpoint, config, vocabulary."""
    folder = tmp_path / "released"
    config = make_config(vocab_size=len(PIECES))
    save_checkpoint(folder / "bert_model.ckpt", weights_by_name(make_model(config, seed=3)))
    config.to_json_file(folder / "bert_config.json")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    return folder


def convert(source, target, format_, **flags):
    arguments = {"input": source, "output": target, "format": format_, **flags}
    return convert_checkpoint.main(["convert_checkpoint.py", *(f"--{name}={v}" for name, v in arguments.items())])


def assert_same_entries(first, second):
    first, second = open_checkpoint(first), open_checkpoint(second)
    assert first.names == second.names
    for name in first.names:
        value, other = first.read(name), second.read(name)
        assert value.dtype == other.dtype
        assert value.tobytes() == other.tobytes(), name
        assert value.shape == other.shape


def test_there_and_back_is_the_same(model_dir, tmp_path, said):
    assert convert(model_dir, tmp_path / "safe", "safetensors") == 0
    assert sorted(os.listdir(tmp_path / "safe")) == SAFETENSORS_FILES
    assert convert(tmp_path / "safe", tmp_path / "back", "tensorflow") == 0
    assert sorted(os.listdir(tmp_path / "back")) == TENSORFLOW_FILES
    assert_same_entries(model_dir, tmp_path / "back")
    for name in ("bert_config.json", "vocab.txt"):
        assert (tmp_path / "back" / name).read_bytes() == (model_dir / name).read_bytes()
    assert (
        "read back: all 46 entries have the same bits; on a fixed input sequence_output, pooled_output, masked_lm, "
        "next_sentence differ by at most 0"
    ) in said()
    assert f"{tmp_path / 'back'} holds bert_config.json, bert_model.ckpt.data-00000-of-00001" in said()


@pytest.mark.parametrize("format_", convert_checkpoint.FORMATS)
def test_a_copy_in_the_same_format(model_dir, tmp_path, format_):
    convert(model_dir, tmp_path / "first", format_)
    convert(tmp_path / "first", tmp_path / "second", format_)
    assert_same_entries(model_dir, tmp_path / "second")


@pytest.mark.parametrize("name", ["pretraining_a", "pretraining_b"])
def test_checkpoints_of_the_release_with_adams_slots(golden_dir, tmp_path, name):
    config_file = golden_dir / name / "bert_config.json"
    for part, keep in (("bert_model.ckpt", False), ("trained/model.ckpt-30", True)):
        source = golden_dir / name / part
        middle, back = (tmp_path / f"{source.name}-{format_}" for format_ in ("safe", "back"))
        convert(source, middle, "safetensors", bert_config_file=config_file, keep_optimizer=keep)
        convert(middle, back, "tensorflow", keep_optimizer=keep)
        assert_same_entries(source, back)


@pytest.mark.parametrize("head", ["classifier", "squad"])
def test_fine_tuned_checkpoints_of_the_release(golden_dir, tmp_path, said, head):
    source = golden_dir / "heads" / head
    convert(source, tmp_path / "safe", "safetensors", bert_config_file=golden_dir / "heads" / "bert_config.json")
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    assert_same_entries(source, tmp_path / "back")
    assert f"on a fixed input sequence_output, pooled_output, {head} differ by at most 0" in said()


def test_the_newest_checkpoint_of_a_run(tmp_path):
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    run_dir.claim({}, {}, {}, ())
    config = make_config()
    run_dir.write_text("bert_config.json", config.to_json_string())
    run_dir.write_text("vocab.txt", "\n".join(PIECES))
    for step in (1, 2):
        run_dir.save(step, weights_by_name(make_model(config, seed=step)) | {"global_step": np.int64(step)})
    convert(tmp_path / "run", tmp_path / "safe", "safetensors", keep_optimizer=True)
    assert_same_entries(run_dir.latest_checkpoint(), tmp_path / "safe")
    assert open_checkpoint(tmp_path / "safe").read("global_step") == 2
    assert (tmp_path / "safe" / "vocab.txt").read_text().split() == PIECES


def test_slots_and_step_are_left_out_unless_asked_for(golden_dir, tmp_path):
    source, config_file = golden_dir / "pretraining_a/trained", golden_dir / "pretraining_a/bert_config.json"
    convert(source, tmp_path / "weights", "tensorflow", bert_config_file=config_file)
    names = open_checkpoint(tmp_path / "weights").names
    assert len(names) == 46
    assert not [name for name in names if "adam" in name or "step" in name]


@pytest.mark.parametrize(
    ("flags", "architecture", "num_entries"),
    [
        ({}, "BertForPreTraining", 46),
        ({"head": "masked_lm"}, "BertForMaskedLM", 44),
        ({"head": "next_sentence"}, "BertForNextSentencePrediction", 41),
        ({"head": "none"}, "BertModel", 39),
    ],
)
def test_the_head_that_is_kept(model_dir, tmp_path, said, flags, architecture, num_entries):
    convert(model_dir, tmp_path / "out", "safetensors", **flags)
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [architecture]
    checkpoint = open_checkpoint(tmp_path / "out")
    assert len(checkpoint.names) == num_entries
    assert flags == {} or f"left out, by --head={flags['head']}: " in said()
    np.testing.assert_array_equal(checkpoint.read(TABLE), open_checkpoint(model_dir).read(TABLE))


@pytest.fixture
def tuned_dir(tmp_path):
    """Return a function of the number of classes that writes a fine-tuning run without a config."""

    def write(num_classes):
        names = {name: value for name, value in weights_by_name(make_model(make_config())).items() if "cls" not in name}
        names |= {"output_weights": np.ones((num_classes, 8), np.float32), "global_step": np.int64(7)}
        names["output_bias"] = np.arange(num_classes, dtype=np.float32)
        save_checkpoint(tmp_path / "tuned" / "model.ckpt-7", names)
        return tmp_path / "tuned"

    return write


@pytest.mark.parametrize(
    ("head", "architecture"),
    [({}, "BertForSequenceClassification"), ({"head": "token_classifier"}, "BertForTokenClassification")],
)
def test_what_a_top_level_head_is_for_the_user_says(tuned_dir, model_dir, tmp_path, said, head, architecture):
    flags = {"bert_config_file": model_dir / "bert_config.json", "labels": "no,maybe,yes"}
    convert(tuned_dir(3), tmp_path / "safe", "safetensors", **flags, **head)
    config = json.loads((tmp_path / "safe" / "config.json").read_text())
    assert config["architectures"] == [architecture]
    assert config["id2label"] == {"0": "no", "1": "maybe", "2": "yes"}
    assert open_checkpoint(tmp_path / "safe").labels == ["no", "maybe", "yes"]
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    assert "a TensorFlow checkpoint cannot store the names of classes: no,maybe,yes" in said()
    assert ("convert it back with --head=token_classifier" in said()) == bool(head)
    np.testing.assert_array_equal(open_checkpoint(tmp_path / "back").read("output_bias"), [0, 1, 2])


def test_a_choice_has_one_score(tuned_dir, model_dir, tmp_path):
    flags = {"bert_config_file": model_dir / "bert_config.json", "head": "multiple_choice"}
    convert(tuned_dir(1), tmp_path / "safe", "safetensors", **flags)
    config_file = tmp_path / "safe" / "config.json"
    config = json.loads(config_file.read_text())
    assert config["architectures"] == ["BertForMultipleChoice"]
    # Other libraries write class names that this head does not have.
    config_file.write_text(json.dumps(config | {"id2label": {"0": "a", "1": "b", "2": "c"}}))
    convert(tmp_path / "safe", tmp_path / "again", "safetensors")
    assert_same_entries(tmp_path / "safe", tmp_path / "again")
    with pytest.raises(ValueError, match="the head of .* has 3 classes, and a choice has one score; choose classifier"):
        convert(tuned_dir(3), tmp_path / "out", "safetensors", **flags)


LABELS = ["no", "yes", "maybe"]
FINE_TUNED = {
    "classification": (lambda: random_classifier(3), OF_TEXTS | {"labels": LABELS}, "BertForSequenceClassification"),
    "multiple_choice": (lambda: random_classifier(1), {"max_seq_length": 16}, "BertForMultipleChoice"),
    "question_answering": (random_answerer, OF_ANSWERS, "BertForQuestionAnswering"),
    "token_classification": (
        lambda: randomise(TokenClassifierModel(small_config(), len(TAGS))),
        OF_TAGS | {"labels": TAGS},
        "BertForTokenClassification",
    ),
}
QUESTIONS = {
    "classification": "he was hungry",
    "multiple_choice": ("he was hungry", ["so he ate", "paris is the capital"]),
    "question_answering": ("what is paris", "paris is the capital of france"),
    "token_classification": "paris is the capital",
}


@pytest.mark.parametrize("task", FINE_TUNED)
def test_a_fine_tuned_model_stays_usable_in_both_formats(tmp_path, said, task):
    make, settings, architecture = FINE_TUNED[task]
    run = write_fine_tuned(tmp_path / "run", make(), task, **settings)
    convert(run, tmp_path / "safe", "safetensors")  # the run without --head: its task names the head
    assert f"{run} is a run of fine-tuning: converting its model in {run / 'model'}" in said()
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    config = json.loads((tmp_path / "safe" / "config.json").read_text())
    assert config["architectures"] == [architecture]
    if "labels" in settings:
        assert config["id2label"] == {str(number): label for number, label in enumerate(settings["labels"])}
    for folder in ("safe", "back"):
        assert json.loads((tmp_path / folder / "task.json").read_text()) == json.loads(
            (run / "model" / "task.json").read_text()
        )
        assert json.loads((tmp_path / folder / "tokenizer_config.json").read_text())["do_lower_case"]
    assert_same_entries(run / "model", tmp_path / "back")
    assert "names of classes" not in said()
    assert "does not store" not in said()
    answers = [open_model(folder)([QUESTIONS[task]])[0] for folder in (run, tmp_path / "safe", tmp_path / "back")]
    assert answers[0] == answers[1] == answers[2]


def test_new_names_of_classes_are_in_both_files(tmp_path):
    run = write_fine_tuned(tmp_path / "run", random_classifier(3), "classification", **OF_TEXTS, labels=LABELS)
    convert(run, tmp_path / "safe", "safetensors", labels="a,b,c")
    assert json.loads((tmp_path / "safe" / "task.json").read_text())["labels"] == ["a", "b", "c"]
    assert open_checkpoint(tmp_path / "safe").labels == ["a", "b", "c"]
    config_file = tmp_path / "safe" / "config.json"
    config_file.write_text(config_file.read_text().replace('"a"', '"d"'))
    message = f"{tmp_path}/safe names the classes a, b, c in task.json and d, b, c in config.json; correct one of t"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        convert(tmp_path / "safe", tmp_path / "out", "tensorflow")


def test_a_model_without_its_head_has_no_task(tmp_path):
    run = write_fine_tuned(tmp_path / "run", random_classifier(3), "classification", **OF_TEXTS, labels=LABELS)
    convert(run, tmp_path / "encoder", "tensorflow", head="none")
    assert sorted(os.listdir(tmp_path / "encoder")) == TENSORFLOW_FILES


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"head": "token_classifier"}, "was trained for classification and has the head classifier, as task.json says"),
        ({"labels": "a,b"}, "2 labels were given, but the head has 3 rows; give one for each with --labels"),
        (
            {"keep_optimizer": True},
            "RUN is a run of fine-tuning, whose model in RUN/model has only weights; lea",
        ),
    ],
)
def test_flags_that_do_not_fit_a_fine_tuned_model(tmp_path, flags, message):
    run = write_fine_tuned(tmp_path / "run", random_classifier(3), "classification", **OF_TEXTS, labels=LABELS)
    with pytest.raises(ValueError, match=re.escape(message.replace("RUN", str(run)))):
        convert(run, tmp_path / "out", "safetensors", **flags)
    assert os.listdir(tmp_path) == ["run"]


def test_a_task_that_is_unknown(model_dir, tmp_path):
    (model_dir / "task.json").write_text('{"task": "translation"}')
    with pytest.raises(ValueError, match=r'task.json: the task is "translation", but must be one of classification, '):
        convert(model_dir, tmp_path / "out", "safetensors")


def test_a_checkpoint_in_an_object_store(model_dir, tmp_path):
    for name in os.listdir(model_dir):
        paths.copy(model_dir / name, f"ram://bucket/released/{name}")
    convert("ram://bucket/released", tmp_path / "out", "safetensors")
    assert_same_entries(model_dir, tmp_path / "out")
    assert (tmp_path / "out" / "vocab.txt").read_bytes() == (model_dir / "vocab.txt").read_bytes()


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("format_", convert_checkpoint.FORMATS)
def test_a_full_disk_leaves_nothing(model_dir, tmp_path, format_, is_there):
    if is_there:
        (tmp_path / "out").mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, limits[1]))  # less than the weights need
    try:
        message = rf"^--output={tmp_path}/out cannot be written \(File too large\); make room on its disk, or give"
        with pytest.raises(OSError, match=message):
            convert(model_dir, tmp_path / "out", format_)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.rglob("*") if model_dir not in path.parents] == (
        ["released", "out"] if is_there else ["released"]
    )


def test_a_folder_that_cannot_be_written_is_told_first(model_dir, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(convert_checkpoint, "open_checkpoint", None)
    with pytest.raises(
        ValueError, match=f"out/new cannot be written, because {tmp_path} is read-only; give another folder$"
    ):
        convert(model_dir, tmp_path / "out" / "new", "tensorflow")


def test_what_a_killed_process_left_is_removed(model_dir, tmp_path):
    # The id of a process that does not exist: ids are below 2**22.
    (tmp_path / ".out.unfinished-99999999").mkdir()
    convert(model_dir, tmp_path / "out", "tensorflow")
    assert sorted(os.listdir(tmp_path)) == ["out", "released"]


@pytest.mark.parametrize("labels", ["yes,no", "yes,no,maybe,never"])
def test_every_class_needs_a_name(tuned_dir, model_dir, tmp_path, labels):
    with pytest.raises(ValueError, match=f"{len(labels.split(','))} labels were given, but the head has 3 rows"):
        convert(
            tuned_dir(3),
            tmp_path / "out",
            "safetensors",
            bert_config_file=model_dir / "bert_config.json",
            labels=labels,
        )


def test_a_model_without_pooler(tmp_path, said):
    config = make_config()
    weights = weights_by_name(make_model(config))
    save_checkpoint(
        tmp_path / "model" / "bert_model.ckpt",
        {n: v for n, v in weights.items() if not n.startswith(("bert/pooler", "cls/seq"))},
    )
    config.to_json_file(tmp_path / "model" / "bert_config.json")
    convert(tmp_path / "model", tmp_path / "safe", "safetensors")
    assert "on a fixed input sequence_output, masked_lm differ by at most 0" in said()
    assert "no vocab.txt next to" in said()
    assert_same_entries(tmp_path / "model", tmp_path / "safe")


def test_the_other_gelu_and_epsilon_come_along(model_dir, tmp_path, said):
    BertConfig(**{**vars(make_config(vocab_size=40)), "hidden_act": "gelu_erf", "layer_norm_eps": 1e-6}).to_json_file(
        model_dir / "bert_config.json"
    )
    convert(model_dir, tmp_path / "safe", "safetensors")
    config = json.loads((tmp_path / "safe" / "config.json").read_text())
    assert (config["hidden_act"], config["layer_norm_eps"]) == ("gelu", 1e-6)
    convert(tmp_path / "safe", tmp_path / "back", "tensorflow")
    assert (tmp_path / "back" / "bert_config.json").read_text() == (model_dir / "bert_config.json").read_text()
    assert "hidden_act is gelu_erf and layer_norm_eps 1e-06: the original BERT has only the tanh form of" in said()


@pytest.mark.parametrize(
    ("pieces", "flags", "expected"),
    [([], {}, True), (["The", "Heart"], {}, False), (["The", "Heart"], {"do_lower_case": "false"}, False)],
)
def test_the_casing_is_written_down_and_read(model_dir, tmp_path, said, pieces, flags, expected):
    (model_dir / "vocab.txt").write_text("\n".join([*PIECES[: 40 - len(pieces)], *pieces]) + "\n")
    convert(model_dir, tmp_path / "safe", "safetensors", **flags)
    settings = json.loads((tmp_path / "safe" / "tokenizer_config.json").read_text())
    assert settings == {"do_lower_case": expected, "model_max_length": 16, "tokenizer_class": "BertTokenizer"}
    assert ("guessed from the words of" in said()) == (not flags)
    # The vocabulary by itself suggests the opposite.
    (tmp_path / "safe" / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    convert(tmp_path / "safe", tmp_path / "tensorflow", "tensorflow")
    convert(tmp_path / "tensorflow", tmp_path / "again", "safetensors")
    assert not json.loads((tmp_path / "again" / "tokenizer_config.json").read_text())["do_lower_case"]


@pytest.mark.parametrize("format_", convert_checkpoint.FORMATS)
def test_a_run_is_converted_as_it_was_trained(model_dir, tmp_path, said, format_):
    (model_dir / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    settings = {"max_seq_length": 12, "init_checkpoint": None}
    (model_dir / "run_config.json").write_text(json.dumps({"settings": settings}))
    (tmp_path / "words.txt").write_text("Heart\n")
    convert(model_dir, tmp_path / "out", format_, extend_vocab=tmp_path / "words.txt")
    assert f"keeping capital letters (set in {model_dir}/tokenizer_config.json)" in said()
    written = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert written == {"do_lower_case": False, "model_max_length": 12, "tokenizer_class": "BertTokenizer"}
    assert (tmp_path / "out" / "vocab.txt").read_text().split()[1] == "Heart"
    files = open_model_files(tmp_path / "out")
    assert (files.longest, files.tokenizer.tokenize("Heart heart")) == (12, ["Heart", "heart"])


def test_kept_accents_come_along(model_dir, tmp_path):
    (model_dir / "tokenizer_config.json").write_text('{"do_lower_case": true, "strip_accents": false}')
    (tmp_path / "words.txt").write_text("Étude\n", encoding="utf-8")
    convert(model_dir, tmp_path / "out", "tensorflow", extend_vocab=tmp_path / "words.txt")
    written = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert (written["do_lower_case"], written["strip_accents"]) == (True, False)
    assert open_model_files(tmp_path / "out").tokenizer.tokenize("ÉTUDE") == ["étude"]


def test_a_tokenizer_config_that_is_no_json(model_dir, tmp_path):
    (model_dir / "tokenizer_config.json").write_text("do_lower_case: true")
    with pytest.raises(ValueError, match="tokenizer_config.json line 1: not valid JSON"):
        convert(model_dir, tmp_path / "out", "safetensors")


def test_words_are_added_to_a_model(model_dir, tmp_path, said):
    words_file = tmp_path / "words.txt"
    words_file.write_text("Angiogram\nw7\nhearty\n")
    convert(model_dir, tmp_path / "out", "tensorflow", extend_vocab=words_file)
    new_pieces = [*PIECES, "hearty"]
    new_pieces[1] = "angiogram"
    assert (tmp_path / "out" / "vocab.txt").read_text().split() == new_pieces
    assert BertConfig.from_json_file(tmp_path / "out" / "bert_config.json").vocab_size == 41
    before, after = open_checkpoint(model_dir), open_checkpoint(tmp_path / "out")
    assert before.names == after.names
    for name in before.names:
        old, new = before.read(name), after.read(name)
        if name in (TABLE, OUTPUT_BIAS):
            np.testing.assert_allclose(new[1], (old[8] + old[9]) / 2, rtol=1e-6)  # angio ##gram
            np.testing.assert_allclose(new[40], (old[6] + old[7]) / 2, rtol=1e-6)  # heart ##y
            new = np.concatenate([new[:1], old[1:2], new[2:40]])
        np.testing.assert_array_equal(old, new, err_msg=name)
    told = said()
    assert "1 words are in the vocabulary already: w7" in told
    assert 'added "angiogram": id 1, [unused0]; starts as the mean of angio ##gram' in told
    assert 'added "hearty": id 40, a new row; starts as the mean of heart ##y' in told
    assert "2 words added: 1 in [unused] places, 1 as new rows; the vocabulary has 41 entries" in told


def test_an_extended_model_computes_the_same_for_old_words(model_dir, tmp_path):
    (tmp_path / "words.txt").write_text("angiogram\nhearty\nhearth")
    convert(model_dir, tmp_path / "out", "safetensors", extend_vocab=tmp_path / "words.txt")
    outputs = []
    for folder in (model_dir, tmp_path / "out"):
        checkpoint = open_checkpoint(folder)
        model = make_model(checkpoint.config)
        for name, weight in weights_by_name(model).items():
            weight.assign(checkpoint.read(name))
        ids = np.array([[3, 6, 7, 25, 4]], np.int32)
        ones, zeros = np.ones_like(ids), np.zeros_like(ids)
        features = {"input_ids": ids, "input_mask": ones, "segment_ids": zeros, "masked_lm_positions": ids[:, :2]}
        outputs.append({name: np.asarray(value) for name, value in model(features).items()})
    np.testing.assert_allclose(*(o["next_sentence_logits"] for o in outputs), rtol=1e-5)
    kept = [0, *range(2, 40)]
    old, new = (o["masked_lm_logits"] for o in outputs)
    np.testing.assert_allclose(new[..., kept], old[..., kept], rtol=1e-5, atol=1e-5)
    assert new.shape[-1] == 42


def test_adam_starts_anew_for_added_words(golden_dir, tmp_path):
    source = golden_dir / "pretraining_a"
    num_pieces = json.loads((source / "bert_config.json").read_text())["vocab_size"]
    (tmp_path / "vocab.txt").write_text("\n".join(["[UNK]", "[unused1]", *(f"w{i}" for i in range(2, num_pieces))]))
    (tmp_path / "words.txt").write_text("one\ntwo")
    flags = {"bert_config_file": source / "bert_config.json", "vocab_file": tmp_path / "vocab.txt"}
    flags |= {"keep_optimizer": True, "extend_vocab": tmp_path / "words.txt"}
    convert(source / "trained", tmp_path / "out", "tensorflow", **flags)
    before, after = open_checkpoint(source / "trained"), open_checkpoint(tmp_path / "out")
    for name in (f"{TABLE}/adam_m", f"{TABLE}/adam_v", f"{OUTPUT_BIAS}/adam_v"):
        old, new = before.read(name), after.read(name)
        assert len(new) == num_pieces + 1
        assert not new[[1, num_pieces]].any()
        np.testing.assert_array_equal(new[2:num_pieces], old[2:])
    np.testing.assert_array_equal(after.read(TABLE)[num_pieces], before.read(TABLE)[0])
    assert after.read("global_step") == 30


def write_other_bits(contents, folder, format_):
    tensors = {name: contents.checkpoint.read(name) for name in contents.checkpoint.names}
    tensors["bert/pooler/dense/bias"] = np.nextafter(tensors["bert/pooler/dense/bias"], np.float32(9))
    save_checkpoint(folder / "bert_model.ckpt", tensors)
    contents.config.to_json_file(folder / "bert_config.json")


def write_other_config(contents, folder, format_):
    other = BertConfig(**{**vars(contents.config), "hidden_act": "gelu_erf"})
    write_contents(dataclasses.replace(contents, config=other), folder, format_)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (write_other_bits, "the written entries differ from the input in bert/pooler/dense/bias; nothing is kept"),
        (write_other_config, "the written config is .*gelu_erf.*, not .*'gelu'.*; nothing is kept"),
    ],
)
def test_a_copy_that_differs_is_not_kept(model_dir, tmp_path, monkeypatch, write, sentence):
    monkeypatch.setattr(convert_checkpoint, "write_contents", write)
    with pytest.raises(ValueError, match=sentence):
        convert(model_dir, tmp_path / "out", "tensorflow")
    assert sorted(os.listdir(tmp_path)) == ["released"]


@pytest.mark.parametrize(
    ("other", "told"), [([0, 0.25, 0], "0.25"), ([0, 2e-5, 0], "2e-05"), ([0, 1, np.nan], "nan"), ([np.inf] * 3, "inf")]
)
def test_a_copy_that_computes_something_else_is_not_kept(model_dir, tmp_path, monkeypatch, other, told):
    other = np.array(other)
    outputs = iter([{"pooled": np.zeros(1), "sequence": np.zeros(3)}, {"pooled": np.zeros(1), "sequence": other}])
    monkeypatch.setattr(convert_checkpoint, "run_network", lambda contents: next(outputs))
    with pytest.raises(ValueError, match=rf"the outputs of the written network differ by {told}; nothing is kept"):
        convert(model_dir, tmp_path / "out", "safetensors")
    assert sorted(os.listdir(tmp_path)) == ["released"]


def test_the_order_of_a_sum_may_differ(model_dir, tmp_path, monkeypatch, said):
    outputs = iter([{"sequence_output": np.zeros(3)}, {"sequence_output": np.array([0, 5e-6, 0])}])
    monkeypatch.setattr(convert_checkpoint, "run_network", lambda contents: next(outputs))
    assert convert(model_dir, tmp_path / "out", "safetensors") == 5e-6
    assert "on a fixed input sequence_output differ by at most 5e-06" in said()


def test_the_network_that_is_run_is_that_of_the_config(model_dir):
    checkpoint = open_checkpoint(model_dir)
    heads = checkpoint.heads
    plain = run_network(Contents(checkpoint, heads, checkpoint.config))
    assert {name: value.shape for name, value in plain.items()} == {
        "sequence_output": (2, 16, 8),
        "pooled_output": (2, 8),
        "masked_lm": (2, 3, 40),
        "next_sentence": (2, 2),
    }
    for field, value in (("hidden_act", "gelu_erf"), ("layer_norm_eps", 1e-3), ("num_attention_heads", 4)):
        other = dataclasses.replace(checkpoint.config, **{field: value})
        assert largest_difference(plain, run_network(Contents(checkpoint, heads, other))) > 1e-5, field
    assert largest_difference(plain, plain) == 0


def test_numbers_that_are_none_are_converted_too(model_dir, tmp_path):
    checkpoint = open_checkpoint(model_dir)
    tensors = {name: checkpoint.read(name) for name in checkpoint.names}
    tensors["bert/pooler/dense/bias"] = np.full(8, np.nan, np.float32)
    save_checkpoint(model_dir / "bert_model.ckpt", tensors)
    assert convert(model_dir, tmp_path / "out", "safetensors") == 0
    assert_same_entries(model_dir, tmp_path / "out")


def test_the_output_may_be_an_empty_folder(model_dir, tmp_path):
    (tmp_path / "out").mkdir()
    convert(model_dir, tmp_path / "out", "tensorflow")
    assert sorted(os.listdir(tmp_path / "out")) == TENSORFLOW_FILES


@pytest.mark.parametrize("format_", convert_checkpoint.FORMATS)
def test_an_empty_folder_stays_the_folder_it_is(model_dir, tmp_path, monkeypatch, format_):
    target = tmp_path / "mounted"
    target.mkdir()
    (tmp_path / "out").symlink_to(target)
    # The id of a process that does not exist: ids are below 2**22.
    left_over = target / ".unfinished-99999999"
    left_over.mkdir()
    (left_over / "bert_model.ckpt.index").write_text("")
    (target / ".vocab.txt.unfinished-99999999").write_text("")
    inode = target.stat().st_ino
    moved = []
    rename = pathlib.Path.rename
    monkeypatch.setattr(pathlib.Path, "rename", lambda path, to: (moved.append(path.name), rename(path, to)))
    convert(model_dir, tmp_path / "out", format_)
    assert (tmp_path / "out").is_symlink()
    assert target.stat().st_ino == inode
    files = TENSORFLOW_FILES if format_ == "tensorflow" else SAFETENSORS_FILES
    assert sorted(os.listdir(target)) == sorted(moved) == files
    assert moved[-1] in ("bert_model.ckpt.index", "model.safetensors")
    assert sorted(os.listdir(tmp_path)) == ["mounted", "out", "released"]
    assert_same_entries(model_dir, tmp_path / "out")


def test_a_failed_conversion_leaves_an_empty_folder(model_dir, tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    monkeypatch.setattr(convert_checkpoint, "write_contents", write_other_bits)
    with pytest.raises(ValueError, match="the written entries differ from the input"):
        convert(model_dir, tmp_path / "out", "tensorflow")
    assert os.listdir(tmp_path / "out") == []


def test_a_folder_that_is_being_written_is_not_empty(model_dir, tmp_path):
    (tmp_path / "out" / f".unfinished-{os.getpid()}").mkdir(parents=True)
    with pytest.raises(ValueError, match=rf"out holds \.unfinished-{os.getpid()}; nothing is overwritten"):
        convert(model_dir, tmp_path / "out", "tensorflow")


def test_a_link_to_no_folder_gets_one(model_dir, tmp_path):
    (tmp_path / "out").symlink_to(tmp_path / "later")
    convert(model_dir, tmp_path / "out", "tensorflow")
    assert sorted(os.listdir(tmp_path / "later")) == TENSORFLOW_FILES


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"output": ""}, "missing: --output"),
        ({"format": "pickle"}, "flag --format=pickle: value should be one of <tensorflow|safetensors>"),
        ({"output": "gs://bucket/out"}, "--output=gs://bucket/out is a remote path; give a local folder, and copy it"),
        ({"output": "DIR/a[b"}, "TensorFlow takes [ * ? in a path for a pattern; rename it"),
        ({"output": "DIR/model.safetensors"}, "names a file; give the folder that the files are to be put into"),
        ({"output": "DIR/released/vocab.txt"}, "names a file; give the folder"),
        (
            {"output": "DIR/released"},
            "holds bert_config.json, bert_model.ckpt.data-00000-of-00001, bert_model.ckpt.inde",
        ),
        ({"input": "DIR"}, "there is no checkpoint in the folder"),
        (
            {"head": "squad"},
            "--head=squad: DIR/released/bert_model.ckpt has no such head, its heads are masked_lm, next_",
        ),
        (
            {"head": "classifier"},
            "has no such head, its heads are masked_lm, next_sentence; choose what is there, or no",
        ),
        (
            {"output": "DIR/known.txt/out"},
            "out cannot be created, because DIR/known.txt is a file; give another",
        ),
        ({"labels": "a,,b"}, '--labels="a,,b" has an empty name; give one for each class'),
        ({"labels": ""}, '--labels="" has an empty name; give one for each class'),
        ({"labels": "a,b,a"}, "--labels has a more than once; give each class its own name"),
        ({"labels": "a,b"}, "--labels: no head with named classes is written; leave the flag out"),
        (
            {"keep_optimizer": True},
            "--keep_optimizer: DIR/released/bert_model.ckpt holds only weights; leave the flag",
        ),
        ({"extend_vocab": "DIR/none.txt"}, "the word file DIR/none.txt does not exist; give a file with one word per"),
        ({"extend_vocab": "DIR/known.txt"}, "has all words of DIR/known.txt already; give other words"),
        ({"vocab_file": "DIR/known.txt"}, "known.txt has 2 tokens, but the model has 40 rows of word embeddings"),
        (
            {"bert_config_file": "DIR/other.json"},
            "does not fit the config: bert/embeddings/position_embeddings is [16, 8] in",
        ),
        (
            {"bert_config_file": "DIR/short.json"},
            "has 16 weights that the model lacks: bert/encoder/layer_1/attention/",
        ),
    ],
)
def test_a_mistake_is_told_in_one_sentence(model_dir, tmp_path, flags, message):
    (tmp_path / "known.txt").write_text("heart\nw3\n")
    make_config(max_position_embeddings=17).to_json_file(tmp_path / "other.json")
    make_config(num_hidden_layers=1).to_json_file(tmp_path / "short.json")
    before = sorted(os.listdir(tmp_path))
    arguments = {"input": model_dir, "output": tmp_path / "out", "format": "safetensors"} | {
        name: str(value).replace("DIR", str(tmp_path)) for name, value in flags.items()
    }
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(message.replace("DIR", str(tmp_path)))):
        convert_checkpoint.main(["convert_checkpoint.py", *(f"--{name}={v}" for name, v in arguments.items())])
    assert sorted(os.listdir(tmp_path)) == before


def test_a_given_config_of_another_activation_is_refused(model_dir, tmp_path):
    values = json.loads((model_dir / "bert_config.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**values, "hidden_act": "relu"}))
    with pytest.raises(ValueError, match="the given config does not match that of .*: hidden_act is 'relu', not"):
        convert(model_dir, tmp_path / "out", "safetensors", bert_config_file=tmp_path / "other.json")


def test_a_checkpoint_without_config_or_vocabulary(model_dir, tmp_path):
    (model_dir / "vocab.txt").unlink()
    (tmp_path / "words.txt").write_text("one")
    with pytest.raises(ValueError, match=r"no vocab.txt is next to .*bert_model.ckpt; give --vocab_file"):
        convert(model_dir, tmp_path / "out", "tensorflow", extend_vocab=tmp_path / "words.txt")
    (model_dir / "bert_config.json").unlink()
    with pytest.raises(ValueError, match=r"bert_model.ckpt has no config next to it; give the --bert_config_file"):
        convert(model_dir, tmp_path / "out", "tensorflow")


def test_heads_that_no_class_has_together(model_dir, tmp_path):
    checkpoint = open_checkpoint(model_dir)
    tensors = {name: checkpoint.read(name) for name in checkpoint.names}
    tensors |= {
        "cls/squad/output_weights": np.ones((2, 8), np.float32),
        "cls/squad/output_bias": np.ones(2, np.float32),
    }
    save_checkpoint(model_dir / "bert_model.ckpt", tensors)
    with pytest.raises(ValueError, match="no class .* has the heads masked_lm, next_sentence, squad together"):
        convert(model_dir, tmp_path / "out", "safetensors")
    convert(model_dir, tmp_path / "squad", "safetensors", head="squad")
    assert open_checkpoint(tmp_path / "squad").heads == ("squad",)
    convert(model_dir, tmp_path / "all", "tensorflow")
    assert_same_entries(model_dir, tmp_path / "all")
