"""The table of weight names: the original name, also used here, and the name in the Hugging Face layout.

Kernels are [in, out] originally and [out, in] in the Hugging Face layout. `output_weights` is [C, H] in both. The table
has the names of BERT; `families` derives those of its variants.
"""

import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.families import BERT, FAMILIES, Family

# Original -> Hugging Face; {i} is the number of a layer.
_NAMES = {
    "bert/embeddings/word_embeddings": "bert.embeddings.word_embeddings.weight",
    "bert/embeddings/token_type_embeddings": "bert.embeddings.token_type_embeddings.weight",
    "bert/embeddings/position_embeddings": "bert.embeddings.position_embeddings.weight",
    "bert/embeddings/LayerNorm/gamma": "bert.embeddings.LayerNorm.weight",
    "bert/embeddings/LayerNorm/beta": "bert.embeddings.LayerNorm.bias",
    "bert/embeddings/projection/kernel": "bert.embeddings.projection.weight",
    "bert/embeddings/projection/bias": "bert.embeddings.projection.bias",
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
    "cls/replaced_token/dense/kernel": "discriminator_predictions.dense.weight",
    "cls/replaced_token/dense/bias": "discriminator_predictions.dense.bias",
    "cls/replaced_token/output_weights": "discriminator_predictions.dense_prediction.weight",
    "cls/replaced_token/output_bias": "discriminator_predictions.dense_prediction.bias",
    # Named as in facebookresearch/SpanBERT; no Hugging Face class has this head.
    "cls/span_boundary/position_embeddings": "cls.pair_target_predictions.position_embeddings.weight",
    "cls/span_boundary/dense_1/kernel": "cls.pair_target_predictions.mlp_layer_norm.linear1.weight",
    "cls/span_boundary/dense_1/bias": "cls.pair_target_predictions.mlp_layer_norm.linear1.bias",
    "cls/span_boundary/LayerNorm_1/gamma": "cls.pair_target_predictions.mlp_layer_norm.layer_norm1.weight",
    "cls/span_boundary/LayerNorm_1/beta": "cls.pair_target_predictions.mlp_layer_norm.layer_norm1.bias",
    "cls/span_boundary/dense_2/kernel": "cls.pair_target_predictions.mlp_layer_norm.linear2.weight",
    "cls/span_boundary/dense_2/bias": "cls.pair_target_predictions.mlp_layer_norm.linear2.bias",
    "cls/span_boundary/LayerNorm_2/gamma": "cls.pair_target_predictions.mlp_layer_norm.layer_norm2.weight",
    "cls/span_boundary/LayerNorm_2/beta": "cls.pair_target_predictions.mlp_layer_norm.layer_norm2.bias",
    "cls/span_boundary/output_bias": "cls.pair_target_predictions.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
# Second names of tensors in the Hugging Face layout: the masked-LM projection is tied to the word embeddings.
_TIED_NAMES = {theirs: ours for family in FAMILIES.values() for theirs, ours in family.tied.items()}
# Hugging Face -> original, of all families; the names of different families differ.
_RELEASED_NAMES = {
    renamed: ours
    for family in FAMILIES.values()
    for heads in ((), *((head,) for head in family.parts_of_heads))
    for ours, theirs in _NAMES.items()
    if (renamed := family.rename(theirs, heads))
} | _TIED_NAMES
_OLD_ENDINGS = {".gamma": ".weight", ".beta": ".bias"}
# Begins all names in a checkpoint that fairseq wrote.
_FAIRSEQ_PREFIX = "decoder."
# The first parts of the names of an encoder's entries, which may lack the name of the model.
_ENCODER_PARTS = {*FAMILIES, "embeddings", "embeddings_project", "encoder", "transformer", "pooler"}

# Training state in a checkpoint: under the weight's name the optimizer's means (slots), and the trained value if the
# weight is an average; the step; in float16 the loss scale and the number of steps since its last change.
_SLOT = re.compile(r"(?<=.)[/.](adam_m|adam_v|unaveraged)$")
_STATE_OF_TRAINING = ("global_step", "loss_scale", "loss_scale_steps")
# Begins the names of weights that belong to a loss, not to the model.
LOSS_PREFIX = "loss/"

# fnmatch patterns, for callers that load a part of a checkpoint.
HEAD_PATTERNS = ("cls/*", "output_weights", "output_bias")
POOLER_PATTERNS = ("bert/pooler/*",)
# Pre-training without a sentence task, and a teacher of masked LM, need none of these.
SENTENCE_PATTERNS = (*POOLER_PATTERNS, "cls/seq_relationship/*")

# A checkpoint has a head if it has this weight.
_HEAD_WEIGHTS = {
    "masked_lm": "cls/predictions/output_bias",
    "next_sentence": "cls/seq_relationship/output_weights",
    "replaced_token": "cls/replaced_token/output_weights",
    "span_boundary": "cls/span_boundary/output_bias",
    "squad": "cls/squad/output_weights",
}
# The weights of these heads have the same names, so only the Hugging Face class tells them apart.
TOP_LEVEL_HEADS = ("classifier", "token_classifier", "multiple_choice")
# Heads that are one linear layer: the prefix of their weights and the network output that they use.
LINEAR_HEADS = {
    "next_sentence": ("cls/seq_relationship/output_", "pooled_output"),
    "squad": ("cls/squad/output_", "sequence_output"),
    "classifier": ("output_", "pooled_output"),
    "multiple_choice": ("output_", "pooled_output"),
    "token_classifier": ("output_", "sequence_output"),
}


def is_training_state(name: str) -> bool:
    """Returns whether an entry of a checkpoint is training state rather than a weight."""
    return name in _STATE_OF_TRAINING or name.startswith(LOSS_PREFIX) or bool(_SLOT.search(name))


def weight_of(name: str) -> str:
    """Returns the name of a weight from its own name or that of one of its slots."""
    return _SLOT.sub("", name)


def is_transposed(name: str) -> bool:
    """Returns whether the Hugging Face layout transposes the entry with this original name."""
    return weight_of(name).endswith("/kernel")


def is_tied(name: str) -> bool:
    """Returns whether a Hugging Face name is the second name of a tied tensor."""
    return name.removeprefix(_FAIRSEQ_PREFIX) in _TIED_NAMES


def is_of_encoder(name: str) -> bool:
    """Returns whether an entry belongs to the encoder, by its original or Hugging Face name, also an unknown one."""
    return re.split(r"[/.]", name.removeprefix(_FAIRSEQ_PREFIX), maxsplit=1)[0] in _ENCODER_PARTS


def is_of_head(head: str, name: str) -> bool:
    """Returns whether an entry belongs to the head; untied projections belong to the masked-LM head."""
    if head == "masked_lm":
        return is_tied(name) or name.startswith("cls/predictions/")
    if head in ("replaced_token", "span_boundary"):
        return name.startswith(f"cls/{head}/")
    return name.startswith(LINEAR_HEADS[head][0])


def is_of_some_head(name: str) -> bool:
    """Returns whether an entry belongs to any head, by its original name; untied projections do."""
    return is_tied(name) or any(fnmatch.fnmatchcase(weight_of(name), pattern) for pattern in HEAD_PATTERNS)


def is_state_of_run(name: str) -> bool:
    """Returns whether an entry is training state, but not a slot of one of the model's weights."""
    return is_training_state(name) and (weight_of(name) == name or name.startswith(LOSS_PREFIX))


def to_hugging_face(
    name: str, is_encoder_only: bool = False, family: Family = BERT, heads: Iterable[str] = ()
) -> str | None:
    """Translates the original name of a weight or a slot; None if the Hugging Face layout has no such weight.

    Other training state keeps its name. With `is_encoder_only`, "bert." is left out, as in the files of a Hugging Face
    `BertModel`. Some names of a `Family` depend on the heads of the model.
    """
    if name in _STATE_OF_TRAINING:
        return name
    weight, layer, slot = _split(name, r"/layer_(\d+)/", "/layer_{i}/")
    theirs = family.rename(_NAMES[weight], heads) if weight in _NAMES else None
    if theirs is None:
        return None
    theirs = theirs.replace("{i}", layer) + (f".{slot}" if slot else "")
    return theirs.removeprefix(f"{family.model_type}.") if is_encoder_only else theirs


def from_hugging_face(name: str) -> str:
    """Translates a Hugging Face name of a weight or a slot, with or without a prefix such as "bert." or "decoder.".

    LayerNorm weights may have the old or the new names.

    Names that the original BERT does not have stay as they are.
    """
    weight, layer, slot = _split(name.removeprefix(_FAIRSEQ_PREFIX), r"\.layer\.(\d+)\.", ".layer.{i}.")
    for old, new in _OLD_ENDINGS.items():
        if weight.endswith(old):
            weight = weight.removesuffix(old) + new
    names = (weight, *(f"{model_type}.{weight}" for model_type in FAMILIES))
    ours = next((_RELEASED_NAMES[name] for name in names if name in _RELEASED_NAMES), None)
    if ours is None:
        return name
    # The names of shared layers have no number.
    return ours.replace("{i}", layer or "0") + (f"/{slot}" if slot else "")


def find_heads(names: Collection[str], architecture: str | None = None) -> tuple[str, ...]:
    """Returns the heads of a checkpoint from the original names of its entries.

    Without the Hugging Face class of the saved model, a head with the weight `output_weights` is a "classifier".
    """
    heads = [head for head, weight in _HEAD_WEIGHTS.items() if weight in names]
    if "output_weights" in names:
        class_heads = (
            head for head in TOP_LEVEL_HEADS for family in FAMILIES.values() if family.classes[head,] == architecture
        )
        heads.append(next(class_heads, "classifier"))
    return tuple(heads)


def architecture_of(heads: Sequence[str], family: Family = BERT) -> str:
    """Returns the Hugging Face class that has exactly these heads; raises ValueError if there is none."""
    if len(heads) == 1 and tuple(heads) not in family.classes:
        raise Mistake("no {} class of the Hugging Face layout has the head {}", family.class_prefix, heads[0])
    if tuple(heads) not in family.classes:
        raise Mistake(
            "no class of the Hugging Face layout has the heads {} together; keep one (convert_checkpoint.py {head})",
            ", ".join(heads),
        )
    return family.classes[tuple(heads)]


def heads_of(architecture: str | None, family: Family = BERT) -> tuple[str, ...]:
    """Returns the heads of a Hugging Face class; raises ValueError if the class is not supported."""
    heads = {name: heads for heads, name in family.classes.items()}
    if architecture not in heads:
        raise Mistake('the class "{}" is not one of {}', architecture, ", ".join(heads))
    return heads[architecture]


def _split(name: str, layer_pattern: str, template: str) -> tuple[str, str, str]:
    """Splits a name into the weight's name with {i} for the layer, the layer number and the slot; "" if missing."""
    slot = _SLOT.search(name)
    layer = re.search(layer_pattern, name)
    weight = re.sub(layer_pattern, template, weight_of(name))
    return weight, layer[1] if layer else "", slot[1] if slot else ""
