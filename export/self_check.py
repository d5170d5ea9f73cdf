"""The check of an export: its SavedModel, in a fresh process, must give what the model gives here."""

import dataclasses

from export.agreement import random_features
from export.fresh_check import largest_difference, run_in_fresh_process, scale_of
from export.live_check import compare_with_live
from prediction.quiet import quietly

# As a share of the largest number, or of 1 where all are smaller. In bfloat16 a sum depends on the order of its terms.
_TOLERANCES = {None: 1e-4, "bfloat16": 0.05}


@dataclasses.dataclass(frozen=True)
class Agreement:
    """How far a SavedModel is from the model that it was made from.

    Attributes:
        text: float; the largest difference of two numbers of `serving_default`, to the text model in this process.
        ids: float; the same of `ids`.
        live: float; the same of the texts that Python answers as well, to its answers.
        num_texts, num_live, num_other: int; texts, those that Python answers as well, and those of them whose answer is
            another: only a quantised model may have such.
        tolerance: float; by how much they may differ.
        load_seconds: float; how long loading took.
    """

    text: float
    ids: float
    live: float
    num_texts: int
    num_live: int
    num_other: int
    tolerance: float
    load_seconds: float


def check_saved_model(folder, text_model, predictor, texts, quantize=None):
    """Holds a SavedModel to the text model it was made from, and to the answers of Python.

    Args:
        folder: path of the SavedModel.
        text_model: TextModel.
        predictor: an object of `prediction` for the same model, in float32.
        texts: dict of arrays of bytes [B, ...] by input name.
        quantize: "bfloat16" or None.

    Returns:
        Agreement.

    Raises:
        ValueError: it does not run, or an answer is another.
    """
    tolerance = _TOLERANCES[quantize]
    firsts = {name: values[:1] for name, values in texts.items()}
    network = text_model.network
    ids = [random_features(network, *sizes) for sizes in ((1, min(8, network.longest)), (3, network.longest))]
    calls = [("serving_default", texts), ("serving_default", firsts), *(("ids", features) for features in ids)]
    found, load_seconds = run_in_fresh_process(folder, calls)
    differences = []
    with quietly():  # Python tells of texts that are cut, and TensorFlow of the processor
        for (signature, inputs), outputs in zip(calls, found, strict=True):
            answer = (text_model.answer if signature == "serving_default" else network)(inputs)
            expected = {name: value.numpy() for name, value in answer.items()}
            what = f"{signature} in a process of its own"
            differences.append(largest_difference(expected, outputs, tolerance * scale_of(expected), what))
        live = compare_with_live(text_model.settings["task"], predictor, texts, found[0], tolerance, bool(quantize))
    return Agreement(
        text=max(differences[:2]),
        ids=max(differences[2:]),
        live=live.largest,
        num_texts=len(found[0]["is_cut"]),
        num_live=live.num_compared,
        num_other=live.num_other,
        tolerance=tolerance,
        load_seconds=load_seconds,
    )
