"""The same network on the other backends of Keras, each in a new process, equals the original BERT."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from bert_keras.modeling import open_checkpoint, save_safetensors

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHILD = """
import sys

import keras
import numpy as np
from keras import ops

from bert_keras.modeling import AdamWeightDecay, BertConfig, LearningRateSchedule, PretrainingModel, PretrainingTask
from bert_keras.modeling import ClassificationTask, MultiLabelTask, RegressionTask, SquadTask, TokenClassificationTask
from bert_keras.modeling import clip_by_global_norm, load_weights, weights_by_name

config_file, forward_file, weights_file, answers_file, result_file, seed_dtype = sys.argv[1:]
arrays = np.load(forward_file)
features = {name.removeprefix("in/"): arrays[name] for name in arrays if name.startswith("in/")}
model = PretrainingModel(BertConfig.from_json_file(config_file))
load_weights(weights_by_name(model), weights_file)

encoded = model.bert(features["input_ids"], features["input_mask"], features["segment_ids"])
scores = model(features)
task = PretrainingTask(model)
numerators, denominators = task.numerators(features), task.denominators(features)
result = {name: encoded[name] for name in ("embedding_output", "sequence_output", "pooled_output")}
result |= {f"encoder_layer_{i}": layer for i, layer in enumerate(encoded["all_encoder_layers"])}
result["masked_lm_log_probs"] = ops.log_softmax(scores["masked_lm_logits"])
result["next_sentence_log_probs"] = ops.log_softmax(scores["next_sentence_logits"])
result["total_loss"] = task.loss(numerators, denominators)
metrics = task.metrics(numerators, denominators)
result |= {name: metrics[name] for name in ("masked_lm_loss", "next_sentence_loss")}

x = ops.convert_to_tensor(np.linspace(-2, 2, 9, dtype="float32"))
schedule = LearningRateSchedule(0.1, num_train_steps=10, num_warmup_steps=4)
result["rates"] = ops.stack([schedule(ops.convert_to_tensor(step)) for step in range(12)])
[clipped], _ = clip_by_global_norm([x], 1.0)
updated = AdamWeightDecay(schedule).update("kernel", x, clipped, 0.1 * x, ops.square(x), schedule(5))
result["updated"] = ops.stack(updated)

answers = dict(np.load(answers_file))
logits = {name: answers[name] for name in ("logits", "start_logits", "end_logits")}
def told(features, dropout_seed=None):
    return {name: ops.convert_to_tensor(value) for name, value in logits.items()}
tasks = [
    (ClassificationTask(told, [0.5, 4.0, 0.25]), {"label_ids": answers["classes"]}),
    (RegressionTask(told), {"label_values": answers["values"]}),
    (MultiLabelTask(told), {"label_values": answers["several"]}),
    (SquadTask(told), {"start_positions": answers["starts"], "end_positions": answers["ends"]}),
]
logits_of_tokens = {"logits": ops.convert_to_tensor(answers["logits"].reshape(2, 3, 3))}
tags = {"label_ids": answers["classes"].reshape(2, 3) - 1}
tasks += [(TokenClassificationTask(lambda features, dropout_seed=None: logits_of_tokens), tags)]
for fine_tuning, labels in tasks:
    batch = {"input_ids": answers["input_ids"], **labels}
    metrics = fine_tuning.metrics(fine_tuning.numerators(batch), fine_tuning.denominators(batch))
    result |= {f"{type(fine_tuning).__name__}/{name}": value for name, value in metrics.items()}

for layer in model.bert.encoder_layers:
    layer.self_attention.dropout.rate = 0.5
seeds = [np.array(numbers, seed_dtype) for numbers in ((1, 2), (1, 2), (5, 2))]
first, again, other = (ops.convert_to_numpy(task.numerators(features, seed)["masked_lm_loss"]) for seed in seeds)
assert first == again != other, (first, again, other)

if keras.backend.backend() == "jax":
    import jax

    variables = model.trainable_variables

    def gradients(is_recomputed):
        def loss(values):
            with keras.StatelessScope(state_mapping=zip(variables, values)):
                return task.loss(task.numerators(features, seeds[0]), denominators)

        model.bert.is_recomputed = is_recomputed
        return jax.jit(jax.grad(loss))([variable.value for variable in variables])

    for kept, recomputed in zip(gradients(False), gradients(True), strict=True):
        np.testing.assert_allclose(recomputed, kept, rtol=1e-5, atol=1e-7)

    keras.config.set_dtype_policy("mixed_bfloat16")
    in_16_bits = PretrainingModel(model.config)
    load_weights(weights_by_name(in_16_bits), weights_file)
    scores = jax.jit(lambda: in_16_bits(features)["masked_lm_logits"])()
    result["masked_lm_log_probs_in_16_bits"] = ops.log_softmax(scores)
assert "tensorflow" not in sys.modules
np.savez(result_file, **{name: ops.convert_to_numpy(value) for name, value in result.items()})
"""


def make_answers():
    """Compute the answers of networks to six rows, and the expected answers."""
    random = np.random.default_rng(0)
    logits = {name: random.normal(size=(6, 3)).astype("float32") for name in ("logits", "start_logits", "end_logits")}
    labels = {name: random.integers(0, 3, 6).astype("int32") for name in ("classes", "starts", "ends")}
    several = random.integers(0, 2, (6, 3)).astype("float32")
    values = random.normal(size=6).astype("float32")
    return {"input_ids": np.ones((6, 3), "int32"), **logits, **labels, "several": several, "values": values}


def run_on(backend, folder, tmp_path):
    """Returns the results of the script above, a dict of arrays."""
    checkpoint = open_checkpoint(folder / "bert_model.ckpt")
    # Safetensors, because only TensorFlow can read the original format.
    weights = {name: checkpoint.read(name) for name in checkpoint.names}
    weights_file = save_safetensors(tmp_path / "weights", weights, checkpoint.config)
    np.savez(tmp_path / "answers.npz", **make_answers())
    files = [folder / "bert_config.json", folder / "forward.npz", weights_file]
    files += [tmp_path / "answers.npz", tmp_path / "result.npz"]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {
        "KERAS_BACKEND": backend,
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
        # JAX compiles each operation separately; the test compares formulas, not speed.
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    command = [sys.executable, "-c", CHILD, *map(str, files), "uint32" if backend == "jax" else "int32"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(tmp_path / "result.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_network_equals_the_release_on_another_backend(golden_dir, tmp_path, backend):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"the backend {backend} is not installed")
    folder = golden_dir / "pretraining_a"
    result = run_on(backend, folder, tmp_path)
    golden = np.load(folder / "forward.npz")
    compared = [name for name in result if f"out/{name}" in golden]
    assert len(compared) == 10
    for name in compared:
        expected = golden[f"out/{name}"].reshape(result[name].shape)
        np.testing.assert_allclose(result[name], expected, rtol=0, atol=1e-5, err_msg=name)
    if backend == "jax":
        distances = np.abs(result["masked_lm_log_probs_in_16_bits"] - result["masked_lm_log_probs"])
        assert 0 < distances.max() < 0.05
    np.testing.assert_allclose(
        result["rates"], [0, 0.025, 0.05, 0.075, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0, 0], atol=1e-7
    )
    x = np.linspace(-2, 2, 9)
    gradient = x / np.sqrt((x**2).sum())
    m, v = 0.9 * 0.1 * x + 0.1 * gradient, 0.999 * x**2 + 0.001 * gradient**2
    value = x - 0.05 * (m / (np.sqrt(v) + 1e-6) + 0.01 * x)
    np.testing.assert_allclose(result["updated"], [value, m, v], atol=1e-6)

    answers = make_answers()
    expected = {name: float(value) for name, value in losses_of(answers).items()}
    assert {name: float(result[f"{name}/loss"]) for name in expected} == pytest.approx(expected, abs=1e-6)
    hits = answers["logits"].argmax(-1) == answers["classes"]
    assert result["ClassificationTask/accuracy"] == pytest.approx(hits.mean())
    assert result["SquadTask/end_accuracy"] == pytest.approx(
        (answers["end_logits"].argmax(-1) == answers["ends"]).mean()
    )


def losses_of(answers):
    """Return the losses of all tasks, by their formulas."""

    def of_classes(logits, labels):
        return np.log(np.exp(logits).sum(-1)) - logits[range(len(labels)), labels]

    logits, classes = answers["logits"].astype(float), answers["classes"]
    weights, counts = np.array([0.5, 4.0, 0.25])[classes], classes > 0
    starts = of_classes(answers["start_logits"].astype(float), answers["starts"])
    ends = of_classes(answers["end_logits"].astype(float), answers["ends"])
    return {
        "ClassificationTask": np.average(of_classes(logits, classes), weights=weights),
        "RegressionTask": np.square(logits[:, 0] - answers["values"]).mean(),
        "MultiLabelTask": np.log1p(np.exp(np.where(answers["several"] == 1, -logits, logits))).mean(),
        "SquadTask": (starts + ends).mean() / 2,
        # There is one class more than tags, so that class 0 does not count.
        "TokenClassificationTask": of_classes(logits[counts], classes[counts] - 1).mean(),
    }
