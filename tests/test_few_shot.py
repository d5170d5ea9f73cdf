"""`run_few_shot.py` and `train_few_shot`, from flags to files and exports."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from states import assert_bit_equal, weights_of
from tiny_classes import CLASS_OF, VOCABULARY, run_few_shot, table_in, texts, write_encoder, write_rows, write_texts
from tiny_exports import converters_in_this_process
from tiny_web import runtime_package
from training_runs import rows_of, stop_after

from bert_keras import export_model, open_model, train_few_shot
from bert_keras.modeling import (
    BertConfig,
    BertModel,
    ClassifierModel,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling.layers import normalize
from bert_keras.tasks.few_shot.run import contrastive_batches, filled, fit_head
from bert_keras.tasks.vectors.losses import ClassesLoss

pytest.importorskip("sklearn")

# The weights of the encoder are of the size 1.
FAST = {"learning_rate": 0.01}


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    return {
        "init_checkpoint": write_encoder(folder / "start"),
        "train_file": write_texts(folder / "train.csv", 60, 1),
        "eval_file": write_texts(folder / "dev.csv", 40, 2),
        "max_seq_length": 12,
        "contrastive_epochs": 0,
    }


@pytest.fixture(scope="module")
def trained(flags, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "out"
    return folder, run_few_shot(flags, "do_train", "do_eval", output_dir=folder)


def test_the_model_is_the_regression_on_the_normalised_means_of_the_encoder(flags, trained):
    folder, metrics = trained
    assert (
        metrics["accuracy"] >= 0.8 > 0.7 > json.loads((folder / "evaluation.json").read_text())["baseline"]["accuracy"]
    )
    config = json.loads((folder / "model" / "bert_config.json").read_text())
    assert (config["pooling"], config["pooler_act"]) == ("mean", "unit_length")

    bert = BertModel.from_checkpoint(flags["init_checkpoint"])

    def vectors(given):
        ids, mask = ids_of(given)
        sums = np.einsum("bth,bt->bh", bert(ids, mask)["sequence_output"], mask)
        return np.asarray(normalize(sums / mask.sum(axis=1, keepdims=True)))

    train, labels = texts(60, 1), ["neg", "pos"]
    kernel, bias = fit_head(vectors(text for text, _ in train), np.array([labels.index(label) for _, label in train]))
    exponentials = np.exp(vectors(CLASS_OF) @ kernel.T + bias)
    expected = exponentials / exponentials.sum(axis=1, keepdims=True)
    found = [[answer.probabilities[label] for label in labels] for answer in open_model(folder)(list(CLASS_OF))]
    np.testing.assert_allclose(found, expected, atol=2e-4)


def test_the_encoder_first_makes_the_vectors_of_a_class_similar(flags, trained, tmp_path):
    changed = {**flags, **FAST, "contrastive_epochs": 60, "output_dir": tmp_path / "out"}
    run_few_shot(changed, "do_train", "do_eval")
    losses = [float(row["loss"]) for row in rows_of(tmp_path / "out")]
    assert len(losses) == 60  # a row for each epoch
    assert losses[-1] < losses[0]
    assert not list((tmp_path / "out").glob("model.ckpt-*"))  # the model is complete without them
    folders = trained[0], tmp_path / "out"
    before, after = (weights_of(ClassifierModel.from_checkpoint(folder / "model")) for folder in folders)
    is_changed = {name: not np.array_equal(value, after[name]) for name, value in before.items()}
    assert is_changed["bert/embeddings/word_embeddings"]
    assert not is_changed["bert/pooler/dense/kernel"]
    difference_before, difference_after = (cosines_of(folder, texts(40, 2)) for folder in folders)
    assert difference_after > 2 * difference_before


@pytest.mark.usefixtures("no_graphs")
def test_the_same_command_with_the_same_seed_makes_the_same_model(flags, tmp_path):
    answers = []
    for name, seed in (("out", 1), ("again", 1), ("other", 7)):
        run_few_shot(flags, "do_train", contrastive_epochs=2, **FAST, seed=seed, output_dir=tmp_path / name)
        answers.append(open_model(tmp_path / name)("the film was good").probabilities["pos"])
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.usefixtures("no_graphs")
def test_an_interrupted_run_ends_as_a_whole_one(flags, tmp_path):
    settings = {**flags, **FAST, "contrastive_epochs": 3}
    whole = run_few_shot(settings, "do_train", "do_eval", output_dir=tmp_path / "whole")
    for step in (1, 3):  # in training, and before the head is fitted
        with pytest.MonkeyPatch.context() as patch:
            stop_after(patch, step)
            run_few_shot(settings, "do_train", "do_eval", output_dir=tmp_path / "out")
    assert run_few_shot(settings, "do_train", "do_eval", output_dir=tmp_path / "out") == whole
    first, second = (
        weights_of(ClassifierModel.from_checkpoint(tmp_path / name / "model")) for name in ("whole", "out")
    )
    assert_bit_equal(first, second)
    assert rows_of(tmp_path / "whole") == rows_of(tmp_path / "out")


@pytest.mark.usefixtures("no_graphs")
def test_the_functions_of_the_user_are_called(flags, tmp_path):
    calls = []
    data = {"train_data": str(flags["train_file"]), "eval_data": str(flags["eval_file"])}
    settings = {name: value for name, value in {**flags, **FAST}.items() if not name.endswith("_file")}
    result = train_few_shot(
        **data,
        **settings | {"contrastive_epochs": 3, "output_dir": tmp_path / "out", "verbose": False},
        on_step=lambda step, averages: calls.append(("step", step, sorted(averages))),
        on_evaluation=lambda step, metrics: calls.append(("evaluation", step, dict(metrics))),
        on_save=lambda step, path: calls.append(("save", step, pathlib.Path(path).name)),
    )
    rows = rows_of(tmp_path / "out")
    last = int(rows[-1]["step"])
    assert [call[1] for call in calls if call[0] == "step"] == [int(row["step"]) for row in rows]
    assert [call for call in calls if call[0] != "step"] == [
        ("save", last, f"model.ckpt-{last}"),
        ("evaluation", last, dict(result.metrics)),
    ]


@pytest.mark.usefixtures("no_graphs")
def test_a_loss_that_is_not_finite_is_refused(flags, tmp_path):
    with pytest.raises(ValueError, match="the loss or its gradient is not finite in step"):
        run_few_shot(flags, "do_train", contrastive_epochs=20, learning_rate=1e30, output_dir=tmp_path / "out")
    assert not (tmp_path / "out" / "model").exists()


def ids_of(given):
    """Returns the ids of texts and their mask, int32 [B, T]."""
    rows = [[VOCABULARY.index(token) for token in ("[CLS]", *text.split(), "[SEP]")] for text in given]
    mask = np.arange(max(map(len, rows))) < np.array([*map(len, rows)])[:, None]
    ids = np.zeros(mask.shape, np.int32)
    ids[mask] = [id_ for row in rows for id_ in row]
    return ids, mask.astype(np.int32)


def cosines_of(folder, examples):
    """Returns the mean cosine of two texts of one class, less that of two texts of two classes."""
    network = ClassifierModel.from_checkpoint(folder / "model")
    vectors = np.asarray(network.bert(*ids_of(text for text, _ in examples))["pooled_output"])
    is_same = np.array([[first == second for _, second in examples] for _, first in examples])
    cosines = vectors @ vectors.T
    return cosines[is_same & ~np.eye(len(examples), dtype=bool)].mean() - cosines[~is_same].mean()


@pytest.mark.parametrize(
    ("counts", "shape"),
    [([8, 8], (1, 16)), ([40, 25], (2, 32)), ([100, 3, 30], (3, 44)), ([4, 3], (1, 7)), ([4] * 60, (4, 60))],
)
def test_batches_keep_texts_of_a_class_together(counts, shape):
    labels = np.repeat(np.arange(len(counts)), counts)
    rows = contrastive_batches(labels, 3, 5)
    assert rows.shape == (3 * shape[0], shape[1])
    for epoch in rows.reshape(3, -1):
        assert len(set(epoch)) == len(epoch) > len(labels) - shape[0]
    alone = [row for batch in rows for row in batch if (labels[batch] == labels[row]).sum() == 1]
    assert len(alone) <= 0.05 * rows.size
    assert (rows[: shape[0]] != rows[shape[0] : 2 * shape[0]]).any()
    np.testing.assert_array_equal(contrastive_batches(labels, 3, 5), rows)
    assert not np.array_equal(contrastive_batches(labels, 3, 6), rows)


@pytest.mark.parametrize(("num_examples", "num_devices", "num_filled"), [(37, 8, 3), (7, 8, 1), (6, 4, 2), (8, 4, 0)])
def test_rows_that_fill_a_batch_do_not_count(num_examples, num_devices, num_filled):
    draw = np.random.default_rng(0)
    features = {
        "label_ids": draw.integers(0, 2, num_examples).astype(np.int32),
        "input_mask": (np.arange(9) < draw.integers(2, 9, num_examples)[:, None]).astype(np.int8),
        "vectors": draw.normal(size=(num_examples, 5)).astype(np.float32),
    }
    rows, longer = filled(np.arange(num_examples)[None], features, num_devices)
    assert rows.shape == (1, num_examples + num_filled)
    losses = []
    for batch in (features, {name: values[rows[0]] for name, values in longer.items()}):
        loss = ClassesLoss(lambda features, dropout_seed=None: {"vectors": tf.constant(features["vectors"])})
        losses.append(float(loss.value(loss.numerators(batch), loss.denominators(batch))))
        compared = loss.compare(tf.constant(batch["vectors"]), batch)["vector_gradients"]
        losses.append(compared[:num_examples].numpy().tolist())
        assert not compared[num_examples:].numpy().any()
    np.testing.assert_allclose(losses[0], losses[2], rtol=1e-6)
    np.testing.assert_allclose(losses[1], losses[3], rtol=1e-5, atol=1e-6)


def test_later_commands_use_the_model_and_the_same_command_trains_nothing(flags, trained, capfd):
    folder, metrics = trained
    assert run_few_shot({"output_dir": folder}, "do_eval") == metrics
    assert run_few_shot(flags, "do_train", "do_eval", output_dir=folder) == metrics
    assert "nothing to train" in "".join(capfd.readouterr())
    run_few_shot({"predict_file": flags["eval_file"], "output_dir": folder}, "do_predict")
    assert len(table_in(folder / "predictions.tsv")) == 40


@pytest.mark.parametrize("num_classes", [2, 3])
def test_a_head_gives_the_probabilities_of_the_regression(num_classes):
    from sklearn.linear_model import LogisticRegression

    draw = np.random.default_rng(0)
    labels = np.arange(30) % num_classes
    vectors = draw.normal(size=(30, 5)) + labels[:, None]
    weights = draw.uniform(0.5, 2, size=30)
    kernel, bias = fit_head(vectors, labels, weights)
    exponentials = np.exp(vectors @ kernel.T + bias)
    model = LogisticRegression(C=10.0, max_iter=1000).fit(vectors, labels, weights)
    np.testing.assert_allclose(
        exponentials / exponentials.sum(-1, keepdims=True), model.predict_proba(vectors), atol=1e-6
    )


@pytest.mark.usefixtures("no_graphs")
def test_names_of_classes_are_examples_and_are_enough(flags, tmp_path):
    rest = {name: flags[name] for name in ("init_checkpoint", "max_seq_length")}
    # No class has two examples, so the encoder has nothing to compare.
    names = {"class_names": ["sad_film", "great_film"], "verbose": False}
    result = train_few_shot(predict_data=["sad film", "great film"], output_dir=tmp_path / "names", **names, **rest)
    assert [row["prediction"] for row in result.predictions] == ["sad_film", "great_film"]
    # A class without another example.
    data = [("the film was bad", "bad"), ("the film was poor", "bad")]
    names = {"class_names": ["bad", "great"], "verbose": False}
    result = train_few_shot(data, predict_data=["great", "poor film"], output_dir=tmp_path / "both", **names, **rest)
    assert [row["prediction"] for row in result.predictions] == ["great", "bad"]
    assert json.loads((tmp_path / "both" / "train.tf_record.json").read_text())["num_examples"] == 4


@pytest.mark.usefixtures("no_graphs")
def test_a_held_out_share_is_evaluated_again_without_the_training_data(flags, tmp_path):
    settings = {**flags, "eval_file": None, "eval_share": 0.2, "class_names": "neg,pos"}
    metrics = run_few_shot(settings, "do_train", "do_eval", output_dir=tmp_path / "out")
    assert run_few_shot({"output_dir": tmp_path / "out"}, "do_eval") == metrics


@pytest.mark.usefixtures("no_graphs")
def test_weights_of_classes_and_calibration_change_the_head(flags, trained, tmp_path):
    text = "the film was good"
    before = open_model(trained[0])(text).probabilities["pos"]
    run_few_shot(flags, "do_train", class_weights="9,1", output_dir=tmp_path / "weighted")
    assert open_model(tmp_path / "weighted")(text).probabilities["pos"] < before - 0.02
    run_few_shot(flags, "do_train", "do_eval", "calibrate", output_dir=tmp_path / "calibrated")
    assert json.loads((tmp_path / "calibrated" / "calibration.json").read_text())["num_examples"] == 6
    assert "pos" in open_model(tmp_path / "calibrated")(text, coverage=0.8).label_set


@pytest.mark.parametrize(
    "format_", ["onnx", *(pytest.param(name, marks=pytest.mark.slow) for name in ("saved_model", "litert", "web"))]
)
def test_exports_give_the_same_answers(trained, tmp_path, format_):
    if format_ == "web":
        runtime_package()
    options = {"quantize": "float32"} if format_ == "web" else {}
    with converters_in_this_process():
        export_model(trained[0], export_dir=tmp_path / "export", format=format_, verbose=False, **options)
    of_keras, of_export = open_model(trained[0]), open_model(tmp_path / "export")
    for text in ("the film was so good", "sad", "then they left the very poor film"):
        expected = of_keras(text).probabilities
        assert of_export(text).probabilities == pytest.approx(expected, abs=1e-5)


def test_the_layout_of_hugging_face_is_refused(trained, tmp_path):
    network = ClassifierModel(BertConfig.from_json_file(trained[0] / "model" / "bert_config.json"), 2)
    with pytest.raises(ValueError, match="no classes for the pooler of this model"):
        save_safetensors(tmp_path, weights_by_name(network), network.config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 1e-3}, "--learning_rate has no effect without --contrastive_epochs, which is 0; give both"),
        ({"pack": True}, "there is no flag --pack"),
        ({"train_file": None}, "--do_train needs --train_file, or --class_names"),
        ({"seed": 3}, "--seed has no effect with --contrastive_epochs=0; leave one of the two out"),
        ({"init_checkpoint": None}, "missing: --init_checkpoint"),
        ({"class_names": "pos"}, "--class_names has one name"),
        ({"class_names": "pos,pos"}, "class_names has pos more than once"),
        ({"class_names": "pos,bad"}, 'label "neg" is not one of pos, bad'),
        (
            {"train_file": None, "class_names": "pos,neg", "class_weights": "balanced"},
            "--class_weights has no effect without --train_file",
        ),
    ],
)
def test_mistakes(flags, tmp_path, changes, message):
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        run_few_shot(flags, "do_train", output_dir=tmp_path / "out", **changes)
    error = raised.value
    if hasattr(error, "spell"):
        error.spell(lambda name: f"--{name}")
    assert message in str(error)
    assert not (tmp_path / "out" / "model").exists()


@pytest.mark.parametrize("name", ["train_file", "eval_file", "predict_file"])
def test_pairs_and_names_do_not_mix(flags, tmp_path, name):
    rows = [("a film", "bad", "neg"), ("the film", "good", "pos")]
    file = write_rows(tmp_path / "pairs.csv", "sentence1,sentence2,label", rows, ",")
    actions = {"eval_file": ["do_eval"], "predict_file": ["do_predict"]}.get(name, [])
    given = {**flags, "train_file": None, "eval_file": None, name: file, "class_names": "neg,pos"}
    with pytest.raises(ValueError, match="are single texts, but pairs.csv line 2 has a pair; leave them out, or name"):
        run_few_shot(given, "do_train", *actions, output_dir=tmp_path / "o")
