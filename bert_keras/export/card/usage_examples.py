"""Usage examples of an export as Markdown, for its model card."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_keras.cli.program_names import as_started
from bert_keras.export.card.ids_examples import ids_example
from bert_keras.export.choices import network_place
from bert_keras.model_folder.preparation import Preparation
from bert_keras.tasks import ability_of, graph_of, predictor_of
from bert_keras.tasks.graph.networks import IdsNetwork
from bert_keras.tasks.graph.text_model import text_names

_OUTPUTS = {
    "label": "the most probable class",
    "labels": "all labels, in the order of the probabilities",
    "probabilities": "the probability of each label, choice, tag or guess",
    "tokens": 'the most probable tokens for each mask; rows are padded with ""',
    "applies": "true if the probability is at least 0.5",
    "value": "the number, on the scale of the training data",
    "index": "the number of the best choice, from 0",
    "scores": "the score of each text, in their order; higher is better",
    "answer": 'the answer; "" for no answer',
    "start": "start of the answer in the context, in characters (code points); -1 for no answer",
    "end": "end of the answer",
    "score": "the sum of the logits of its first and last token",
    "null_odds": "the score of no answer minus that of the best answer; 0 if the model always answers",
    "is_impossible": "true for no answer",
    "words": 'the words; rows are padded with ""',
    "tags": "the tag of each word",
    "starts": "start of each word, in characters (code points); -1 after the last",
    "ends": "end of each word",
    "num_words": "number of words",
    "num_masks": "number of masks",
    "probability": "the probability that the second text follows the first",
    "num_tokens": "number of tokens",
    "vector": "the vector",
    "is_cut": "true if the text was cut",
}
_TEXTS = {
    "text": "Paris is the capital of France.",
    "text_pair": "The capital of France is Paris.",
    "choices": ["It lies on the Seine.", "He was hungry, so he ate."],
    "query": "What is the capital of France?",
    "texts": ["Paris is the capital of France.", "He was hungry, so he ate."],
    "text_a": "Paris is the capital of France.",
    "text_b": "It lies on the Seine.",
    "question": "What is the capital of France?",
    "context": "Paris is the capital of France.",
}
_NUMBERS_SHOWN = 6

_SAVED_MODEL = """**Python**, with `pip install tensorflow-text`, which brings TensorFlow:

```python
import tensorflow as tf
import tensorflow_text  # the operations of the tokenizer

model = tf.saved_model.load("{path}")
print(model.signatures["serving_default"]({arguments}))
```

| output | type | meaning |
| --- | --- | --- |
{outputs}

**TensorFlow Serving**, in this folder:

```
docker run -p 8501:8501 -v "$PWD:/models/bert" -e MODEL_NAME=bert tensorflow/serving
curl -d '{request}' http://localhost:8501/v1/models/bert:predict
```

Its answer, numbers rounded:

```json
{response}
```"""
_WEB = """**A web page**, on any static host; here on your own computer:

```
python -m http.server --bind 127.0.0.1 --directory web
```

Then open http://127.0.0.1:8000 in a browser. The texts do not leave it."""

_DIFFERENCES = (
    "The package tokenizers gives the ids of bert-keras, with two exceptions: a word of more than 100 characters is "
    "unknown, and a pair that is too long may lose its last token in the other text."
)


def example_texts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an example of each text that a model answers, a dict of JSON values; settings is its task.json."""
    if ability_of(settings["task"]).has_masks:
        return {"text": "Paris is the [MASK] of France."}
    # A task from outside the project may name its texts otherwise.
    return {name: _TEXTS.get(name, _TEXTS["text"]) for name in text_names(settings)}


def how_to_call(
    settings: Mapping[str, Any],
    places: Mapping[str, str],
    answer: Mapping[str, np.ndarray],
    network: IdsNetwork,
    preparation: Preparation,
) -> str:
    """Returns the section of a model card on how to call the model.

    places has the path of each format, and preparation is the Preparation of the model.
    """
    example, calls = example_texts(settings), ["## How to call it"]
    if "saved_model" in places:
        calls.append(_call_of_text(places["saved_model"], settings["task"], example, answer))
    predictor = predictor_of(settings["task"])
    if predictor.card_opener:
        calls.append(f"**bert-keras**: `bert_keras.{predictor.card_opener}` opens this folder too.")
    else:
        texts = [text for value in example.values() for text in ([value] if isinstance(value, str) else value)]
        command = " ".join([as_started("python predict.py --model_dir=."), *(f'"{text}"' for text in texts)])
        reads_windows = predictor.reads_windows or settings.get("doc_stride")
        extent = ", which reads long texts whole" if reads_windows else ""
        calls.append(f"**bert-keras**{extent}:\n\n```\n{command}\n```")
    take_ids = ["the signature `ids` of the SavedModel"] if "saved_model" in places else []
    take_ids += [f"`{network_place(name)}`" for name in places if name != "saved_model"]
    inputs, outputs = (
        ", ".join(f"`{name}`" for name in names) for names in (network.input_names, network.output_names)
    )
    calls.append(
        f"**Ids** from your own tokenizer go to {' and '.join(take_ids)}: int32 [B, T] {inputs}; the outputs are "
        f"float32 {outputs}."
    )
    if "web" in places:
        calls.append(_WEB)
    ids_formats = [name for name in ("onnx", "openvino", "litert") if name in places]
    calls += [ids_example(name, places[name], settings, example, preparation) for name in ids_formats]
    if ids_formats:
        calls.append(_DIFFERENCES)
    return "\n\n".join(calls)


def _call_of_text(path: str, task: str, example: Mapping[str, Any], answer: Mapping[str, np.ndarray]) -> str:
    meanings = _OUTPUTS | getattr(graph_of(task), "meanings", {})
    rows = [
        f"| `{name}` | {value.dtype} | {meanings.get(name, '')} |".replace("object", "string")
        for name, value in answer.items()
    ]
    first = {name: _shortened(value.tolist()[0]) for name, value in answer.items()}
    response = json.dumps({"predictions": [first]}, ensure_ascii=False)
    return _SAVED_MODEL.format(
        path=path,
        arguments=", ".join(f"{name}=tf.constant([{json.dumps(value)}])" for name, value in example.items()),
        outputs="\n".join(rows),
        request=json.dumps({"instances": [example]}),
        response=response.replace('"..."', "..."),
    )


def _shortened(value: Any) -> Any:
    """Returns an answer as JSON, with rounded numbers, and with "..." at the end of shortened lists."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, list):
        return [_shortened(part) for part in value[:_NUMBERS_SHOWN]] + ["..."] * (len(value) > _NUMBERS_SHOWN)
    return round(value, 4) if isinstance(value, float) else value
