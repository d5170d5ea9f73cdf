"""Folders of tiny fine-tuned models, as the fine-tuning programs write them."""

import json

import numpy as np
from known_models import ID, TOKENS, make_config, randomise, small_config
from reference_bert import ReferenceBert

from bert_keras.modeling import (
    ClassifierModel,
    SquadModel,
    TokenClassifierModel,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)

OF_TEXTS = {"max_seq_length": 16, "is_pair": False, "doc_stride": None}
OF_ANSWERS = {
    "max_seq_length": 24,
    "doc_stride": 4,
    "max_query_length": 6,
    "max_answer_length": 5,
    "n_best_size": 20,
    "version_2_with_negative": False,
    "null_score_diff_threshold": 0.0,
    "answer_text": "release",
}
OF_TAGS = {"max_seq_length": 16, "document_context": False, "tag_scheme": "BIO", "words": "conll"}
OF_VECTORS = {"max_seq_length": 16, "pooling": "mean", "layer": -1, "normalize": True, "prefix": "he was "}
TAGS = ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]

_LAYERS = {"num_hidden_layers": 1}
_LABELS = {"labels": ["bad", "good", "\u00fc"]}
# Task -> a function that makes its model, and its settings in task.json.
FINE_TUNED = {
    "classification": (lambda: random_classifier(3, **_LAYERS), OF_TEXTS | _LABELS | {"is_pair": True}),
    "regression": (lambda: random_classifier(1, **_LAYERS), OF_TEXTS),
    "multi_label": (lambda: random_classifier(3, **_LAYERS), OF_TEXTS | _LABELS),
    "multiple_choice": (lambda: random_classifier(1, **_LAYERS), {"max_seq_length": 16}),
    "rerank": (
        lambda: random_classifier(1, seed=3, **_LAYERS),
        {"max_seq_length": 16, "activation": "sigmoid"},
    ),
    "question_answering": (lambda: random_answerer(**_LAYERS), OF_ANSWERS | {"version_2_with_negative": True}),
    "token_classification": (
        lambda: randomise(TokenClassifierModel(small_config(**_LAYERS), len(TAGS))),
        OF_TAGS | {"labels": TAGS},
    ),
}


CLASSIFIER = "BertForSequenceClassification"
# Class of transformers -> the task of its head, and the others that are possible.
TASK_OF_CLASS = {
    "BertForSequenceClassification": ("classification", ["multi_label"]),
    "BertForTokenClassification": ("token_classification", []),
    "BertForMultipleChoice": ("multiple_choice", []),
    "BertForQuestionAnswering": ("question_answering", []),
    "BertForMaskedLM": ("fill_mask", ["score"]),
    "BertForNextSentencePrediction": ("next_sentence", []),
    "BertForPreTraining": ("fill_mask", ["score", "next_sentence"]),
}


def write_fine_tuned(folder, model, task, **settings):
    """Writes a model with its task.json into the folder `model` of a run. Returns the run folder."""
    model_folder = folder / "model"
    model_folder.mkdir(parents=True, exist_ok=True)
    prefix = save_checkpoint(model_folder / "model.ckpt-7", weights_by_name(model))
    (model_folder / "checkpoint").write_text(f'model_checkpoint_path: "{prefix}"\n')
    model.config.to_json_file(model_folder / "bert_config.json")
    (model_folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    (model_folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    (model_folder / "task.json").write_text(json.dumps({"task": task, **settings, "step": 7, "metrics": {}}))
    return folder


def write_foreign(folder, task, model=None, architecture=None, tokens=TOKENS, **config):
    """Writes a fine-tuned model as transformers does: without a task.json. Returns the folder."""
    model = model or FINE_TUNED[task][0]()
    architecture = architecture or next(name for name, (of_class, _) in TASK_OF_CLASS.items() if of_class == task)
    save_safetensors(folder, weights_by_name(model), model.config, architecture)
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true, "model_max_length": 40}')
    return folder


def random_classifier(num_classes, seed=0, **changes):
    """Returns a ClassifierModel of `small_config` with random weights."""
    return randomise(ClassifierModel(small_config(**changes), num_classes), seed)


def logits_of(model, *segments):
    """Returns the logits of a model of one layer for one unpadded sequence: [CLS] and each segment with [SEP]."""
    ids, segment_ids = [ID["[CLS]"]], [0]
    for number, segment in enumerate(segments):
        ids += [ID[token] for token in [*segment.split(), "[SEP]"]]
        segment_ids += [number] * (len(segment.split()) + 1)
    weights = {name: np.asarray(weight) for name, weight in weights_by_name(model).items()}
    bert = ReferenceBert(1, model.config.num_attention_heads, "gelu", weights)
    pooled = bert.encode(np.array([ids]), np.ones((1, len(ids))), np.array([segment_ids]))[2]
    return (pooled @ weights["output_weights"].T + weights["output_bias"])[0]


def fixed_classifier(*logits):
    """Returns a ClassifierModel that gives the same logits to every text."""
    model = ClassifierModel(make_config(), len(logits))
    weights = weights_by_name(model)
    weights["output_weights"].assign(np.zeros(weights["output_weights"].shape))
    weights["output_bias"].assign(logits)
    return model


def random_answerer(seed=0, **changes):
    """Returns a SquadModel of `small_config` with random weights."""
    return randomise(SquadModel(small_config(**changes)), seed)


def _blind(model):
    """Makes a model see only each token: its one-hot vector, without position, segment or neighbours."""
    for name, weight in weights_by_name(model).items():
        weight.assign(np.full(weight.shape, float(name.endswith("gamma"))))
    weights_by_name(model)["bert/embeddings/word_embeddings"].assign(np.eye(len(TOKENS)))
    return model


def word_tagger(tags_by_word, names=TAGS):
    """Returns a tagger with a fixed tag for each token; unknown tokens get the first tag, O.

    Args:
        tags_by_word: dict of token to tag.
    """
    model = _blind(TokenClassifierModel(make_config(), len(names)))
    table = np.zeros((len(names), len(TOKENS)))
    for number, token in enumerate(TOKENS):
        table[names.index(tags_by_word.get(token, names[0])), number] = 1
    weights_by_name(model)["output_weights"].assign(table)
    return model


def word_finder(start_scores, end_scores):
    """Returns an answerer with fixed start and end scores for each token.

    Args:
        start_scores, end_scores: dict of token to float.
    """
    model = _blind(SquadModel(make_config()))
    table = [[scores.get(token, 0.0) for token in TOKENS] for scores in (start_scores, end_scores)]
    weights_by_name(model)["cls/squad/output_weights"].assign(table)
    return model
