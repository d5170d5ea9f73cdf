"""Code for model cards that runs the file of a network on text, with the package tokenizers and without bert-keras."""

import json
from collections.abc import Mapping
from typing import Any

from bert_keras.model_folder.preparation import Preparation
from bert_keras.tasks import ability_of, predictor_of
from bert_keras.tasks.ability import LISTS

_LIBRARIES = {
    "onnx": ("ONNX Runtime", "onnxruntime", "import onnxruntime"),
    "openvino": ("OpenVINO", "openvino", "import openvino"),
    "litert": ("LiteRT", "ai-edge-litert", "from ai_edge_litert.interpreter import Interpreter"),
}
# From `features`, lists by the names of inputs, to `outputs`, arrays by the names of outputs.
_RUN = {
    "onnx": """session = onnxruntime.InferenceSession("{path}")
inputs = {{each.name: np.array(features[each.name], np.int32) for each in session.get_inputs()}}
outputs = dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs)))""",
    "openvino": """model = openvino.Core().read_model("{path}")
inputs = [np.array(features[each.any_name], np.int32) for each in model.inputs]
answers = openvino.compile_model(model, "CPU")(inputs)
outputs = {{each.any_name: answers[number] for number, each in enumerate(model.outputs)}}""",
    "litert": """run = Interpreter("{path}").get_signature_runner()
outputs = run(**{{name: np.array(features[name], np.int32) for name in run.get_input_details()}})""",
}
_LABELS = 'labels = json.load(open("task.json"))["labels"]'
_MASKS = 'features["masked_lm_positions"] = [[i for i, token in enumerate(rows[0].tokens) if token == "[MASK]"]]'


def ids_example(
    name: str, path: str, settings: Mapping[str, Any], texts: Mapping[str, Any], preparation: Preparation
) -> str:
    """Returns the part of a model card that runs the file of the format `name` at a path on example texts.

    settings is the task.json of the model, texts are the `example_texts` of its task, and preparation is its
    Preparation.
    """
    title, package, library = _LIBRARIES[name]
    predictor = predictor_of(settings["task"])
    casing = f"lowercase={preparation.do_lower_case}"
    if preparation.strip_accents is not None:
        casing += f", strip_accents={preparation.strip_accents}"
    reading = predictor.card_code(settings)
    has_labels = "labels" in reading
    lines = [
        *(["import json\n"] if has_labels else []),
        "import numpy as np",
        library,
        "from tokenizers import BertWordPieceTokenizer",
        "",
        *(f"{variable} = {json.dumps(text, ensure_ascii=False)}" for variable, text in texts.items()),
        f'tokenizer = BertWordPieceTokenizer("vocab.txt", {casing})',
        f"tokenizer.enable_truncation({settings['max_seq_length']}{predictor.card_truncation})",
        *_rows(settings, texts),
        'features = {"input_ids": [row.ids for row in rows], "input_mask": [row.attention_mask for row in rows]}',
        'features["segment_ids"] = [row.type_ids for row in rows]',
        *([_MASKS] if ability_of(settings["task"]).has_masks else []),
        _RUN[name].format(path=path),
        *([_LABELS] if has_labels else []),
        reading,
    ]
    code = "\n".join(lines)
    return f"**{title}**, with `pip install {package} tokenizers`, in this folder:\n\n```python\n{code}\n```"


def _rows(settings: Mapping[str, Any], texts: Mapping[str, Any]) -> list[str]:
    """Returns the lines that turn the texts into encodings, `rows`."""
    first, *others = texts
    if {*others} & {*LISTS}:
        return [
            "tokenizer.enable_padding()",
            f"rows = tokenizer.encode_batch([({first}, each) for each in {others[0]}])",
        ]
    prefix = f"{json.dumps(settings['prefix'], ensure_ascii=False)} + " if settings.get("prefix") else ""
    return [f"rows = [tokenizer.encode({', '.join([prefix + first, *others])})]"]
