"""The check of an export: its SavedModel, in a new process, must give what the model gives here."""

import dataclasses

from bert_keras.export.checks.against_python import compare_with_live
from bert_keras.export.checks.agreement import judge, questions
from bert_keras.export.checks.fresh_process import largest_difference, run_in_fresh_process, scale_of

# Of the answers to texts: as a share of the largest number, or of 1 where all are smaller. In bfloat16 a sum depends on
# the order of its terms. Whether the network is the right one is judged by its scores, see `export.checks.agreement`.
_TOLERANCES = {None: 1e-4, "bfloat16": 0.05}


@dataclasses.dataclass(frozen=True)
class SavedModelAgreement:
    """How far a SavedModel is from the model that it was made from.

    Attributes:
        text: float; the largest difference of two numbers of `serving_default`, to the text model in this process.
        ids: float; the largest difference of two numbers of `ids`, to the network in float32.
        distance: float; the distance of `ids` from that network, see `export.checks.agreement.Agreement`.
        live: float; the largest difference to the answers of Python, for the texts that Python answers as well.
        num_texts, num_live, num_other: int; all texts, those that Python answers as well, and those of them with
            another answer: only a quantised model may have such.
        tolerance: float; the largest difference that is allowed in answers to texts.
        load_seconds: float; how long loading took.
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
    """Compares a SavedModel with the text model and the network that it was made from, and with the answers of Python.

    Args:
        folder: path of the SavedModel.
        text_model: TextModel, quantised like the SavedModel.
        network: IdsNetwork of the model in float32.
        predictor: an object of `prediction` for the same model, in float32.
        texts: dict of arrays of bytes [B, ...] by input name.
        quantize: "bfloat16" or None.

    Returns:
        SavedModelAgreement.

    Raises:
        ValueError: it does not run, or gives another answer.
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
