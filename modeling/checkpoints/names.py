"""The table of names: each weight as the release calls it, which is our name too, and as the Hugging Face layout does.

The two layouts differ in one more thing: a kernel is [in, out] in the release and [out, in] there. What is called
`output_weights` is [classes, H] in both.
"""

import re

# Release -> Hugging Face; {i} is the number of a layer.
_NAMES = {
    "bert/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "bert/embeddings/token_type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "bert/embeddings/position_embeddings": "bert.embeddings.position_embeddings.weight",
    "bert/embeddings/LayerNorm/gamma": "bert.embeddings.LayerNorm.weight",
    "bert/embeddings/LayerNorm/beta": "bert.embeddings.LayerNorm.bias",
    "bert/encoder/layer_{i}/attention/self/query/kernel": "bert.encoder.layer.{i}.attention.self.query.weight",
    "bert/encoder/layer_{i}/attention/self/query/bias": "bert.encoder.layer.{i}.attention.self.query.bias",
    "bert/encoder/layer_{i}/attention/self/key/kernel": "bert.encoder.layer.{i}.attention.self.key.weight",
    "bert/encoder/layer_{i}/attention/self/key/bias": "bert.encoder.layer.{i}.attention.self.key.bias",
    "bert/encoder/layer_{i}/attention/self/value/kernel": "bert.encoder.layer.{i}.attention.self.value.weight",
    "bert/encoder/layer_{i}/attention/self/value/bias": "bert.encoder.layer.{i}.attention.self.value.bias",
    "bert/encoder/layer_{i}/attention/output/dense/kernel": "bert.encoder.layer.{i}.attention.output.dense.weight",
    "bert/encoder/layer_{i}/attention/output/dense/bias": "bert.encoder.layer.{i}.attention.output.dense.bias",
    "bert/encoder/layer_{i}/attention/output/LayerNorm/gamma": (
        "bert.encoder.layer.{i}.attention.output.LayerNorm.weight"
    ),
    "bert/encoder/layer_{i}/attention/output/LayerNorm/beta": "bert.encoder.layer.{i}.attention.output.LayerNorm.bias",
    "bert/encoder/layer_{i}/intermediate/dense/kernel": "bert.encoder.layer.{i}.intermediate.dense.weight",
    "bert/encoder/layer_{i}/intermediate/dense/bias": "bert.encoder.layer.{i}.intermediate.dense.bias",
    "bert/encoder/layer_{i}/output/dense/kernel": "bert.encoder.layer.{i}.output.dense.weight",
    "bert/encoder/layer_{i}/output/dense/bias": "bert.encoder.layer.{i}.output.dense.bias",
    "bert/encoder/layer_{i}/output/LayerNorm/gamma": "bert.encoder.layer.{i}.output.LayerNorm.weight",
    "bert/encoder/layer_{i}/output/LayerNorm/beta": "bert.encoder.layer.{i}.output.LayerNorm.bias",
    "bert/pooler/dense/kernel": "bert.pooler.dense.weight",
    "bert/pooler/dense/bias": "bert.pooler.dense.bias",
    "cls/predictions/transform/dense/kernel": "cls.predictions.transform.dense.weight",
    "cls/predictions/transform/dense/bias": "cls.predictions.transform.dense.bias",
    "cls/predictions/transform/LayerNorm/gamma": "cls.predictions.transform.LayerNorm.weight",
    "cls/predictions/transform/LayerNorm/beta": "cls.predictions.transform.LayerNorm.bias",
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
# Second names of two tensors there: the projection of the masked-LM head is the word embeddings.
_TIED_NAMES = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}
_RELEASED_NAMES = {theirs: ours for ours, theirs in _NAMES.items()} | _TIED_NAMES
_OLD_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}

# What training adds to the weights: the optimizer's means, under the weight's name; the step; and in float16 the factor
# of the loss and how many steps it has stood.
_SLOT = re.compile(r"(?<=.)[/.](adam_m|adam_v)$")
_STATE_OF_TRAINING = ("global_step", "loss_scale", "loss_scale_steps")

# Patterns (of fnmatch) for who loads a part of a checkpoint.
HEAD_PATTERNS = ("cls/*", "output_weights", "output_bias")
POOLER_PATTERNS = ("bert/pooler/*",)

# The weight that shows that a checkpoint has the head. The last three are alike; their class tells them apart.
_HEAD_WEIGHTS = {
    "masked_lm": "cls/predictions/output_bias",
    "next_sentence": "cls/seq_relationship/output_weights",
    "squad": "cls/squad/output_weights",
    "classifier": "output_weights",
    "token_classifier": "output_weights",
    "multiple_choice": "output_weights",
}
_ARCHITECTURES = {
    (): "BertModel",
    ("masked_lm", "next_sentence"): "BertForPreTraining",
    ("masked_lm",): "BertForMaskedLM",
    ("next_sentence",): "BertForNextSentencePrediction",
    ("squad",): "BertForQuestionAnswering",
    ("classifier",): "BertForSequenceClassification",
    ("token_classifier",): "BertForTokenClassification",
    ("multiple_choice",): "BertForMultipleChoice",
}


def is_training_state(name):
    """Returns whether an entry of a checkpoint is not a weight, but what training keeps beside the weights."""
    return name in _STATE_OF_TRAINING or bool(_SLOT.search(name))


def weight_of(name):
    """Returns the name of the weight that an entry is, or is a slot of."""
    return _SLOT.sub("", name)


def is_transposed(name):
    """Returns whether the entry of that release name is turned over in the Hugging Face layout."""
    return weight_of(name).endswith("/kernel")


def is_tied(name):
    """Returns whether a name of the Hugging Face layout is the second one of a tensor that is tied to another."""
    return name in _TIED_NAMES


def to_hugging_face(name, is_encoder_only=False):
    """Translates the name of a weight, of one of its slots or of what else training keeps, which stays as it is.

    Args:
        name: the release's name.
        is_encoder_only: whether to leave out "bert.", as the files of a `BertModel` do.

    Returns:
        The name in the Hugging Face layout, or None if nothing there corresponds to it.
    """
    if name in _STATE_OF_TRAINING:
        return name
    weight, layer, slot = _split(name, r"/layer_(\d+)/", "/layer_{i}/")
    theirs = _NAMES.get(weight)
    if theirs is None:
        return None
    theirs = theirs.replace("{i}", layer) + (f".{slot}" if slot else "")
    return theirs.removeprefix("bert.") if is_encoder_only else theirs


def from_hugging_face(name):
    """Translates a name of the Hugging Face layout: with or without "bert.", old or new, of a weight or of a slot.

    Returns:
        The release's name; the given one if the release has nothing that corresponds to it.
    """
    weight, layer, slot = _split(name, r"\.layer\.(\d+)\.", ".layer.{i}.")
    for old, new in _OLD_ENDINGS.items():
        if weight.endswith(old):
            weight = weight.removesuffix(old) + new
    ours = _RELEASED_NAMES.get(weight) or _RELEASED_NAMES.get(f"bert.{weight}")
    if ours is None:
        return name
    return ours.replace("{i}", layer) + (f"/{slot}" if slot else "")


def find_heads(names, architecture=None):
    """Says which heads a checkpoint has.

    Args:
        names: the release's names of its entries.
        architecture: the Hugging Face class it was saved from; without it, a head of top-level `output_weights` is a
            "classifier".

    Returns:
        tuple of "masked_lm", "next_sentence", "squad" and one of "classifier", "token_classifier" and
        "multiple_choice".
    """
    kinds = {architecture: heads[0] for heads, architecture in _ARCHITECTURES.items() if len(heads) == 1}
    top_level = kinds.get(architecture)
    if _HEAD_WEIGHTS.get(top_level) != "output_weights":
        top_level = "classifier"
    return tuple(
        head
        for head, weight in _HEAD_WEIGHTS.items()
        if weight in names and (weight != "output_weights" or head == top_level)
    )


def architecture_of(heads):
    """Returns the Hugging Face class that has just these heads.

    Raises:
        ValueError: there is none.
    """
    if tuple(heads) not in _ARCHITECTURES:
        raise ValueError(
            f"no class of the Hugging Face layout has the heads {', '.join(heads)} together; leave out all but one"
        )
    return _ARCHITECTURES[tuple(heads)]


def heads_of(architecture):
    """Returns the heads of a Hugging Face class, a tuple as of `find_heads`.

    Raises:
        ValueError: no such class can be read or written.
    """
    for heads, name in _ARCHITECTURES.items():
        if name == architecture:
            return heads
    raise ValueError(f'the class "{architecture}" is not one of {", ".join(_ARCHITECTURES.values())}')


def _split(name, layer_pattern, template):
    """Splits a name into that of the weight with {i} for the layer, the layer's number, and the slot; "" for none."""
    slot = _SLOT.search(name)
    layer = re.search(layer_pattern, name)
    weight = re.sub(layer_pattern, template, weight_of(name))
    return weight, layer[1] if layer else "", slot[1] if slot else ""
