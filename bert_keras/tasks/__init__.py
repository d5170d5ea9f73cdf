"""The tasks: what programs train and models answer. This list names them, and gives a part of a task by name."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bert_keras.tasks.graph.text_model import TextModel

# The class that answers texts in a graph, by the name in task.json.
_GRAPHS = {
    **dict.fromkeys(("classification", "regression", "multi_label"), "classification.graph.ClassModel"),
    "multiple_choice": "choice.graph.ChoiceModel",
    "rerank": "reranking.graph.RankModel",
    "question_answering": "question_answering.graph.SpanModel",
    "token_classification": "tagging.graph.TagModel",
    "fill_mask": "pretraining.graph.FillMaskModel",
    "next_sentence": "pretraining.graph.NextSentenceModel",
    "replaced_tokens": "pretraining.graph.ReplacedTokensModel",
    "vectors": "vectors.graph.VectorModel",
}


def graph_of(task: str) -> "type[TextModel]":
    """Returns the class whose object is the text model of a task, for an export. It needs TensorFlow."""
    module, _, name = _GRAPHS[task].rpartition(".")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
