"""Checks that an exported SavedModel gives the same answers in a new process as the model in this one."""

import dataclasses

from bert_keras.export.checks.against_python import compare_with_live
from bert_keras.export.checks.agreement import judge, questions
from bert_keras.export.checks.fresh_process import largest_difference, run_in_fresh_process, scale_of

# Tolerances for the answers to texts, relative to the largest number if that is above 1. In bfloat16 a sum depends on
# the order of its terms. `export.checks.agreement` checks the scores of the network.
_TOLERANCES = {None: 1e-4, "bfloat16": 0.05}


@dataclasses.dataclass(frozen=True)
class SavedModelAgreement:
    """Differences between a SavedModel and its source model.

    Attributes:
        text: float; largest difference of two numbers between `serving_default` and the text model in this process.
        ids: float; largest difference of two numbers between `ids` and the network in float32.
        distance: float; distance of `ids` from that network, see `export.checks.agreement.Agreement`.
        live: float; largest difference from the answers of Python, for the texts that Python also answers.
        num_texts: int; number of texts.
        num_live: int; number of texts that Python also answers.
        num_other: int; number of those with another answer; always 0 unless the model is quantized.
        tolerance: float; maximum difference in answers to texts, relative to the largest number if that is above 1.
        load_seconds: float; loading time.
    """

    text: float
    ids: float
    distance: float
    live: float
    num_texts: int
    num_live: int
    num_other: int
    tolerance: float
    load_seconds: float


def check_saved_model(folder, text_model, network, predictor, texts, quantize=None):
    """Compares a SavedModel with its source text model, its source network and the answers of Python.

    Args:
        folder: path of the SavedModel.
        text_model: TextModel, quantized like the SavedModel.
        network: IdsNetwork of the model in float32.
        predictor: an object of `prediction` for the same model, in float32.
        texts: dict of arrays of bytes [B, ...] by input name.
        quantize: "bfloat16" or None.

    Returns:
        SavedModelAgreement.

    Raises:
        ValueError: the SavedModel does not run, or its answers differ.
    """
    tolerance = _TOLERANCES[quantize]
    of_text = [texts, {name: values[:1] for name, values in texts.items()}]
    calls = [("serving_default", inputs) for inputs in of_text]
    calls += [("ids", features) for features in questions(network)]
    found, load_seconds = run_in_fresh_process(folder, calls)
    differences = []
    for inputs, outputs in zip(of_text, found, strict=False):
        expected = {name: value.numpy() for name, value in text_model.answer(inputs).items()}
        what = "serving_default in a new process"
        differences.append(largest_difference(expected, outputs, tolerance * scale_of(expected), what))
    ids = judge("ids in a new process", found[len(of_text) :], network, quantize)
    live = compare_with_live(text_model.settings["task"], predictor, texts, found[0], tolerance, bool(quantize))
    return SavedModelAgreement(
        text=max(differences),
        ids=ids.largest_difference,
        distance=ids.distance,
        live=live.largest,
        num_texts=len(found[0]["is_cut"]),
        num_live=live.num_compared,
        num_other=live.num_other,
        tolerance=tolerance,
        load_seconds=load_seconds,
    )
