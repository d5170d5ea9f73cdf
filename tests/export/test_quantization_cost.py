"""The cost of quantization: a network evaluated on all rows, and the sentence about it."""

import re
import types

import numpy as np
import pytest

from bert_keras.export import calibration, quantization_cost
from bert_keras.export.quantization_cost import cost_of, outputs_of
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import OPENERS
from bert_keras.prediction.network import Question

FEATURES = {
    "input_ids": np.array([[5, 6, 0, 0], [5, 0, 0, 0], [5, 6, 7, 8], [9, 9, 9, 0], [7, 0, 0, 0]], np.int32),
    "input_mask": np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], np.int8),
}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(quantization_cost, "_BATCH_SIZE", 2)


def sums(features):
    assert all(values.dtype == np.int32 for values in features.values())
    return {"logits": features["input_ids"].sum(-1, keepdims=True).astype(np.float32)}


def test_rows_come_back_in_their_order():
    outputs, speed = outputs_of(sums, FEATURES, is_per_token=False, is_trimmed=True)
    assert outputs["logits"].tolist() == [[11], [5], [26], [27], [7]]
    assert speed > 0


@pytest.mark.parametrize("is_trimmed", [True, False])
def test_outputs_of_tokens_are_padded(is_trimmed):
    lengths = []

    def double(features):
        lengths.append(features["input_ids"].shape[1])
        return {"logits": 2.0 * features["input_ids"]}

    long = {name: np.pad(values, [(0, 0), (0, 12)]) for name, values in FEATURES.items()}
    outputs, _ = outputs_of(double, long, is_per_token=True, is_trimmed=is_trimmed)
    assert outputs["logits"].tolist() == (2.0 * long["input_ids"]).tolist()
    assert set(lengths) == ({1, 2, 4} if is_trimmed else {16})


def test_each_sequence_of_a_row_has_a_score():
    pairs = {name: np.stack([values, values[::-1]], axis=1) for name, values in FEATURES.items()}
    outputs, _ = outputs_of(sums, pairs, is_per_token=False, is_trimmed=True)
    assert outputs["logits"].tolist() == [[11, 7], [5, 27], [26, 26], [27, 5], [7, 11]]


def test_the_places_of_masks_keep_their_number():
    shapes = set()

    def logits(features):
        shapes.add(features["masked_lm_positions"].shape[1:])
        return sums({name: features[name] for name in FEATURES})

    places = {"masked_lm_positions": np.ones((5, 3), np.int32)}
    outputs_of(logits, FEATURES | places, is_per_token=False, is_trimmed=False)
    assert shapes == {(3,)}


def sequences_of(text):
    if not text:
        raise Mistake("it is empty")
    ids = {"one": [5, 6], "two": [7]}[text]
    return None, [Question(ids, [0] * len(ids))]


WORK = types.SimpleNamespace(
    eval_features=FEATURES,
    is_trimmed=True,
    metric="mean",
    evaluate=lambda outputs: {"mean": float(outputs["logits"].mean())},
)


@pytest.mark.parametrize(
    ("task", "settings", "end"),
    [
        (WORK, {}, "mean 15.2 before, 7.6 now, on 5 evaluation examples"),
        (WORK, {"doc_stride": 2}, "mean 15.2 before, 7.6 now, on 5 windows of evaluation examples"),
        (
            None,
            {"task": "fill_mask"},
            "without evaluation data, the largest change of a number is 5.5 for 2 sample texts, whose numbers are "
            "from 7 to 11",
        ),
    ],
)
def test_the_cost_is_a_sentence(tmp_path, monkeypatch, messages, task, settings, end):
    source = types.SimpleNamespace(
        task=task,
        settings={"max_seq_length": 4, **settings},
        predictor=types.SimpleNamespace(
            model=types.SimpleNamespace(is_per_token=False),
            outputs_to_evaluate=lambda outputs, features: outputs,
            sequences=sequences_of,
        ),
        network=types.SimpleNamespace(
            input_names=tuple(FEATURES), weights={"bert/embeddings/word_embeddings": np.zeros([9, 1])}
        ),
        write_model_files=lambda folder: None,
    )
    (tmp_path / "model.onnx").write_bytes(bytes(300_000))
    texts = {"text": np.array([b"one", b"two", b""], object)}
    monkeypatch.setattr(calibration, "built_in_texts", lambda settings: texts)
    monkeypatch.setattr(quantization_cost, "write_ids", lambda name, network, file: file.write_bytes(bytes(1_200_000)))
    halves = {True: sums, False: lambda features: {"logits": sums(features)["logits"] / 2}}
    monkeypatch.setitem(OPENERS, "onnx", lambda file: halves[file.stat().st_size > 1e6])
    told = cost_of("onnx", source, tmp_path, "int8", 0.5)
    speeds = r"[\d.]+ sequences a second before, [\d.]+ now; "
    assert re.fullmatch(f"onnx in int8: 1.2 MB before, 0.3 MB now; {speeds}{end}", told)
    assert messages == [told]
    if task:
        lowered = "quantize=int8 lowers mean from {} to {}, by more than max_loss=0.49 of it; give more training data, "
        advice = "another format or quantize=float32, or accept it with a higher max_loss"
        evaluate = task.evaluate

        def below_zero(outputs):
            return {"mean": min(evaluate(outputs)["mean"] - 15, 0.0)}

        for metric, values in (evaluate, ("15.2", "7.6")), (below_zero, ("0", "-7.4")):
            monkeypatch.setattr(task, "evaluate", metric)
            with pytest.raises(Mistake, match=f"^{re.escape(lowered.format(*values) + advice)}$"):
                cost_of("onnx", source, tmp_path, "int8", 0.49)
