"""Training on packed rows gives the same results as training on the same examples unpacked."""

import json

import numpy as np
import pytest
import tensorflow as tf
from made_up_task import MadeUp, run, write_start
from states import state_of, weights_in
from tiny_bert import make_config, make_inputs, with_random_weights
from training_runs import assert_near, rows_of, stop_after
from xla import lower

from bert_keras.engine.input.feature_batches import in_parts, training_batches
from bert_keras.engine.input.packed_batches import packed_training_batches
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    LearningRateSchedule,
    TokenClassificationLoss,
    TokenClassifierModel,
)
from bert_keras.settings.groups import RunSettings
from bert_keras.tasks.pretraining import run as pretraining
from bert_keras.tasks.pretraining.settings import PretrainingSettings

NUM_STEPS = 5
CONFIG = make_config(
    num_hidden_layers=1, max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)


def make_features():
    """Makes thirty sequences of 3 to 24 tokens; some token labels are ignored."""
    random = np.random.default_rng(0)
    inputs = make_inputs(random, random.integers(3, 25, 30), 24)
    labels = np.where(inputs["input_mask"], random.integers(-1, 3, (30, 24)), -1)
    return inputs | {"label_ids": labels.astype(np.int32)}


def make_trainer(num_parts=1, is_packed=False):
    """Makes a trainer of known weights, and its batches."""
    model = TokenClassifierModel(CONFIG, 3)
    loss = TokenClassificationLoss(model)
    model.head.dropout.rate = 0.0
    with_random_weights(model, seed=1, scale=0.5)
    features, settings = make_features(), {"train_batch_size": 6, "seed": 4, "num_train_steps": NUM_STEPS}
    settings = RunSettings(**settings, gradient_accumulation_steps=num_parts)
    if is_packed:
        batches = packed_training_batches(features, settings, 1, is_fixed=True)
    else:
        batches = in_parts(training_batches(features, 6, seed=4, is_trimmed=True), num_parts)
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-4, 100))
    return TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 7, num_parts), batches


def train(*arguments, **more):
    """Trains a few steps and returns their metrics and the final weights."""
    trainer, batches = make_trainer(*arguments, **more)
    totals = trainer.train(iter(batches), tf.constant(NUM_STEPS))
    return tf.nest.map_structure(float, totals), state_of(trainer)


@pytest.mark.slow  # two graphs; tests/training/test_every_loss.py packs single batches of each loss
def test_packed_steps_have_the_losses_gradients_and_weights_of_unpacked_ones():
    expected_totals, expected_state = train()
    totals, state = train(3, is_packed=True)
    for expected, value in zip(tf.nest.flatten(expected_totals), tf.nest.flatten(totals), strict=True):
        assert value == pytest.approx(expected, rel=1e-5)
    assert_near(state, expected_state)


@pytest.mark.slow
def test_xla_compiles_the_step_of_batches_of_one_shape():
    trainer, batches = make_trainer(2, is_packed=True)
    assert lower(trainer.step, batches.element_spec)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A model without dropout."""
    folder = write_start(tmp_path_factory.mktemp("start") / "tiny")
    config = json.loads((folder / "bert_config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "classifier_dropout": 0.0}
    (folder / "bert_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow  # two runs
@pytest.mark.usefixtures("no_graphs")
def test_a_packed_run_is_the_run_that_it_would_be_unpacked(start, tmp_path, capsys):
    flags = {"init_checkpoint": start, "num_train_epochs": 1}
    metrics = run(MadeUp(), tmp_path / "unpacked", **flags)
    assert run(MadeUp(), tmp_path / "packed", pack=True, **flags) == pytest.approx(metrics, rel=1e-5)
    text = "packing: 8 examples fill 7.7 rows of 8 tokens, at most 8; padding: 19.0 %, unpacked 22.4 %"
    assert text in " ".join(capsys.readouterr().out.split())
    assert_near(weights_in(tmp_path / "packed"), weights_in(tmp_path / "unpacked"))
    losses, expected_losses = (
        [float(row[name]) for row in rows_of(tmp_path / folder)[:3] for name in ("loss", "gradient_norm")]
        for folder in ("packed", "unpacked")
    )
    assert losses == pytest.approx(expected_losses, rel=2e-5)
    with pytest.raises(ValueError, match="pack was True and is False now; give the old settings to resume it"):
        run(MadeUp(), tmp_path / "packed", pack=False, **flags)


class Short(MadeUp):
    """Half of its rows have four tokens, so packed rows are fewer."""

    def __init__(self):
        super().__init__()
        for name in ("input_ids", "input_mask"):
            self.train_features[name][::2, 4:] = 0


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize(
    ("kind", "given", "is_packed"),
    [
        (Short, {}, True),
        (MadeUp, {}, False),  # rows that would hardly be fewer
        (Short, {"pack": False}, False),
        (Short, {"gradient_accumulation_steps": 8}, False),  # each part is a row of its own
    ],
)
def test_examples_share_rows_by_default_if_they_can_and_it_is_less_work(
    start, tmp_path, capsys, kind, given, is_packed
):
    run(kind(), tmp_path / "run", init_checkpoint=start, max_steps=1, do_eval=False, **given)
    assert ("\npacking: 8 examples fill" in capsys.readouterr().out) == is_packed


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("kind", [Short, MadeUp])
def test_a_run_that_resumes_keeps_its_decision(start, tmp_path, capsys, kind):
    flags = {"init_checkpoint": start, "num_train_epochs": 1, "do_eval": False}
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 1)
        run(kind(), tmp_path / "run", **flags)
    begun = "\npacking: 8 examples fill" in capsys.readouterr().out
    assert begun == (kind is Short)
    # Another choice, as with another number of devices.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bert_keras.tasks.finetuning.networks.is_worth_packing", lambda *arguments: not begun)
        run(kind(), tmp_path / "run", keep_checkpoint_max=2, **flags)
    assert ("\npacking: 8 examples fill" in capsys.readouterr().out) == begun


@pytest.mark.usefixtures("no_graphs")
def test_a_task_that_cannot_be_packed_is_not_packed_by_default(start, tmp_path, capsys):
    task = Short()
    task.no_effect = {"pack": "its rows are one"}
    run(task, tmp_path / "run", init_checkpoint=start, max_steps=1, do_eval=False)
    assert "packing:" not in capsys.readouterr().out


def test_a_task_that_cannot_be_packed_says_why(start, tmp_path):
    task = MadeUp()
    task.no_effect = {"pack": "its rows are one"}
    with pytest.raises(ValueError, match="pack does not apply: its rows are one; leave it out"):
        run(task, tmp_path / "run", pack=True, init_checkpoint=start)
    assert not (tmp_path / "run").exists()


def test_a_run_that_resumes_with_packed_rows_reads_nothing_up_to_its_step(make_examples, monkeypatch):
    num_read = {0: 0, 7: 0}

    def counted(records, batch_size, seed, start_step=0):
        def count(batch):
            num_read[start_step] += 1
            return np.int64(0)

        examples = {name: np.int32(values) for name, values in make_examples(4).items()}
        batches = tf.data.Dataset.from_tensors(examples).repeat(3)
        return batches.map(lambda batch: {**batch, "count": tf.fill([4], tf.numpy_function(count, [0], tf.int64))})

    monkeypatch.setattr(pretraining, "training_batches", counted)
    settings = PretrainingSettings(train_batch_size=4, seed=1, pack=True)
    pretraining._Opened(settings, tf.distribute.get_strategy(), CONFIG, None, None).batches(7)
    assert num_read == {0: 3, 7: 0}
