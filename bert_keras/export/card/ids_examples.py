"""Code for model cards that runs an ONNX or LiteRT file on text, with the package tokenizers and without bert-keras."""

import json
from collections.abc import Mapping
from typing import Any

from bert_keras.model_folder.preparation import Preparation

_LIBRARIES = {
    "onnx": ("ONNX Runtime", "onnxruntime", "import onnxruntime"),
    "litert": ("LiteRT", "ai-edge-litert", "from ai_edge_litert.interpreter import Interpreter"),
}
# From `features`, lists by the names of inputs, to `outputs`, arrays by the names of outputs.
_RUN = {
    "onnx": """session = onnxruntime.InferenceSession("{path}")
inputs = {{each.name: np.array(features[each.name], np.int32) for each in session.get_inputs()}}
outputs = dict(zip([each.name for each in session.get_outputs()], session.run(None, inputs)))""",
    "litert": """run = Interpreter("{path}").get_signature_runner()
outputs = run(**{{name: np.array(features[name], np.int32) for name in run.get_input_details()}})""",
}
_LABELS = 'labels = json.load(open("task.json"))["labels"]'
# From `outputs` to the answer.
_READ = {
    "classification": f"""{_LABELS}
scores = np.exp(outputs["logits"][0] - outputs["logits"][0].max())
print(dict(zip(labels, (scores / scores.sum()).tolist())))""",
    "multi_label": f"""{_LABELS}
print(dict(zip(labels, (1 / (1 + np.exp(-outputs["logits"][0]))).tolist())))""",
    "regression": 'print(float(outputs["logits"][0, 0]))',
    "multiple_choice": 'print(choices[outputs["logits"][:, 0].argmax()])',
    "token_classification": f"""{_LABELS}
best, words = outputs["logits"][0].argmax(-1), rows[0].word_ids
for place, word in enumerate(words):
    if word is not None and word not in words[:place]:
        start, end = rows[0].word_to_chars(word)
        print(text[start:end], labels[best[place]])""",
    "fill_mask": """for scores in outputs["logits"][0]:
    print([tokenizer.id_to_token(int(number)) for number in scores.argsort()[::-1][:{top_k}]])""",
    "next_sentence": """scores = outputs["logits"][0]
print(float(1 / (1 + np.exp(scores[1] - scores[0]))))""",
    "replaced_tokens": """scores = 1 / (1 + np.exp(-outputs["logits"][0]))
for token, score in list(zip(rows[0].tokens, scores.tolist()))[1:-1]:
    print(token, score)""",
}
_POOLED = {"cls": "[0]", "mean": ".mean(axis=0)", "max": ".max(axis=0)"}
_MASKS = 'features["masked_lm_positions"] = [[i for i, token in enumerate(rows[0].tokens) if token == "[MASK]"]]'


def ids_example(
    name: str, path: str, settings: Mapping[str, Any], texts: Mapping[str, Any], preparation: Preparation
) -> str:
    """Returns the part of a model card that runs the file of the format `name` at a path on example texts.

    settings is the task.json of the model, texts are the `example_texts` of its task, and preparation is its
    Preparation.
    """
    title, package, library = _LIBRARIES[name]
    task = settings["task"]
    casing = f"lowercase={preparation.do_lower_case}"
    if preparation.strip_accents is not None:
        casing += f", strip_accents={preparation.strip_accents}"
    strategy = ', strategy="only_second"' if task == "question_answering" else ""
    lines = [
        *(["import json\n"] if "json." in _reading(settings) else []),
        "import numpy as np",
        library,
        "from tokenizers import BertWordPieceTokenizer",
        "",
        *(f"{each} = {json.dumps(text, ensure_ascii=False)}" for each, text in texts.items()),
        f'tokenizer = BertWordPieceTokenizer("vocab.txt", {casing})',
        f"tokenizer.enable_truncation({settings['max_seq_length']}{strategy})",
        *_rows(settings, texts),
        'features = {"input_ids": [row.ids for row in rows], "input_mask": [row.attention_mask for row in rows]}',
        'features["segment_ids"] = [row.type_ids for row in rows]',
        *([_MASKS] if task == "fill_mask" else []),
        _RUN[name].format(path=path),
        _reading(settings),
    ]
    code = "\n".join(lines)
    return f"**{title}**, with `pip install {package} tokenizers`, in this folder:\n\n```python\n{code}\n```"


def _rows(settings: Mapping[str, Any], texts: Mapping[str, Any]) -> list[str]:
    """Returns the lines that turn the texts into encodings, `rows`."""
    first, *others = texts
    if settings["task"] in ("multiple_choice", "rerank"):
        return [
            "tokenizer.enable_padding()",
            f"rows = tokenizer.encode_batch([({first}, each) for each in {others[0]}])",
        ]
    prefix = f"{json.dumps(settings['prefix'], ensure_ascii=False)} + " if settings.get("prefix") else ""
    return [f"rows = [tokenizer.encode({', '.join([prefix + first, *others])})]"]


def _reading(settings: Mapping[str, Any]) -> str:
    """Returns the lines that print the answer."""
    task = settings["task"]
    if task == "vectors":
        vector = f'vector = outputs["sequence_output"][0]{_POOLED[settings["pooling"]]}'
        length = " / np.linalg.norm(vector)" if settings.get("normalize") else ""
        return f"{vector}\nprint((vector{length}).tolist())"
    if task == "question_answering":
        return _reading_of_answers(settings)
    if task == "rerank":
        scores = 'outputs["logits"][:, 0]'
        scores = f"1 / (1 + np.exp(-{scores}))" if settings["activation"] == "sigmoid" else scores
        return f"for score, each in sorted(zip(({scores}).tolist(), texts), reverse=True):\n    print(score, each)"
    return _READ[task].replace("{top_k}", str(settings.get("top_k")))


def _reading_of_answers(settings: Mapping[str, Any]) -> str:
    longest, answer = settings["max_answer_length"], "context[rows[0].offsets[first][0] : rows[0].offsets[last][1]]"
    if settings["version_2_with_negative"]:
        threshold = settings["null_score_diff_threshold"]
        answer = f'"" if start[0] + end[0] - score > {threshold} else {answer}'
    return f"""start, end = outputs["start_logits"][0], outputs["end_logits"][0]
places = [place for place, number in enumerate(rows[0].sequence_ids) if number == 1]
spans = [(start[i] + end[j], i, j) for i in places for j in places if i <= j < i + {longest}]
score, first, last = max(spans)
print({answer})"""
