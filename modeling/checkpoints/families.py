"""The variants of BERT in the Hugging Face layout: DistilBERT, ELECTRA and ALBERT, as differences from BERT.

All are the same network with other values in the config. Only the names of weights, classes and config keys differ.
"""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.modeling.config import LAYER_NORM_EPS, BertConfig

# The heads of the classes that all families have.
_CLASSES: dict[tuple[str, ...], str] = {
    (): "Model",
    ("masked_lm",): "ForMaskedLM",
    ("squad",): "ForQuestionAnswering",
    ("classifier",): "ForSequenceClassification",
    ("token_classifier",): "ForTokenClassification",
    ("multiple_choice",): "ForMultipleChoice",
}
_PRETRAINING: dict[tuple[str, ...], str] = {("masked_lm", "next_sentence"): "ForPreTraining"}
# Heads on the pooled token.
_POOLED_HEADS = ("next_sentence", "classifier", "multiple_choice")
# Config fields with which a model belongs to another family.
_SWITCHES = ("embedding_size", "has_shared_layers", "pooler_act", "is_decoder")


@dataclasses.dataclass(frozen=True)
class Family:
    """How a family differs from BERT in the Hugging Face layout.

    Attributes:
        model_type: the value of this key in `config.json`; also the prefix of the encoder's weights.
        class_prefix: the beginning of the names of its classes.
        more_classes: the further classes, a dict from tuples of heads to the end of the class name.
        parts: dict from parts of BERT's Hugging Face names to their names here, replaced in this order.
        parts_of_heads: the same for models with a head. If not empty, models with other heads have no pooler.
        tied: second names of tensors, a dict from these to our names.
        config_keys: dict from our config fields to other names of the keys in `config.json`.
        defaults: values of missing keys in `config.json`, by our names, where they differ from those of BERT.
        switches: values of config fields that the network always has; `config.json` does not contain them.
        needed: required values of keys in `config.json`, which may be missing. `written` are those that we write.
    """

    model_type: str
    class_prefix: str
    more_classes: dict[tuple[str, ...], str] = dataclasses.field(default_factory=dict)
    parts: dict[str, str] = dataclasses.field(default_factory=dict)
    parts_of_heads: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    tied: dict[str, str] = dataclasses.field(default_factory=dict)
    config_keys: dict[str, str] = dataclasses.field(default_factory=dict)
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    switches: dict[str, Any] = dataclasses.field(default_factory=dict)
    needed: dict[str, Any] = dataclasses.field(default_factory=dict)
    written: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def classes(self) -> dict[tuple[str, ...], str]:
        """The names of the Hugging Face classes by their heads."""
        classes = {(): _CLASSES[()]} | self.more_classes | _CLASSES
        return {heads: self.class_prefix + end for heads, end in classes.items()}

    def rename(self, name: str, heads: Iterable[str]) -> str | None:
        """Translates a Hugging Face name of BERT, for a model with these heads; None if the model has no such weight.

        Without the heads of a pooler, only the pooler has no name.
        """
        for_heads = [self.parts_of_heads[head] for head in heads if head in self.parts_of_heads]
        if self.parts_of_heads and not for_heads and name.startswith("bert.pooler."):
            return None
        for parts in (*for_heads, self.parts):
            for old, new in parts.items():
                name = name.replace(old, new)
        return f"{self.model_type}.{name.removeprefix('bert.')}" if name.startswith("bert.") else name

    def fits(self, config: BertConfig) -> bool:
        """Returns whether the layout has a place for all values of a config."""
        has_switches = all(getattr(config, name) == value for name, value in self.switches.items())
        has_segments = config.type_vocab_size > 0 or "type_vocab_size" in self.switches
        has_projection = config.embedding_size is not None
        if self.model_type == "electra":
            return has_switches and has_segments and config.embedding_size != config.hidden_size
        return has_switches and has_segments and has_projection == ("embedding_size" in self.defaults)


BERT = Family(
    "bert",
    "Bert",
    more_classes=_PRETRAINING | {("next_sentence",): "ForNextSentencePrediction"},
    tied={
        "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
        "cls.predictions.decoder.bias": "cls/predictions/output_bias",
        "cls.pair_target_predictions.decoder.weight": "bert/embeddings/word_embeddings",
    },
    switches={"has_shared_layers": False, "pooler_act": "tanh"},
)
# The layer before the classifier is the pooler, with another activation.
_PRE_CLASSIFIER = {"bert.pooler.dense": "pre_classifier"}
DISTILBERT = Family(
    "distilbert",
    "DistilBert",
    parts={
        ".attention.self.query": ".attention.q_lin",
        ".attention.self.key": ".attention.k_lin",
        ".attention.self.value": ".attention.v_lin",
        ".attention.output.dense": ".attention.out_lin",
        ".attention.output.LayerNorm": ".sa_layer_norm",
        ".intermediate.dense": ".ffn.lin1",
        "}.output.dense": "}.ffn.lin2",
        "}.output.LayerNorm": "}.output_layer_norm",
        "bert.encoder.": "bert.transformer.",
        "cls.predictions.transform.dense": "vocab_transform",
        "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
        "cls.predictions.": "vocab_projector.",
    },
    parts_of_heads={"classifier": _PRE_CLASSIFIER, "multiple_choice": _PRE_CLASSIFIER},
    tied={"vocab_projector.weight": "bert/embeddings/word_embeddings"},
    config_keys={
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "hidden_act": "activation",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "classifier_dropout": "seq_classif_dropout",
    },
    defaults={"num_hidden_layers": 6, "classifier_dropout": 0.2},
    switches={
        "type_vocab_size": 0,
        "pooler_act": "relu",
        "has_shared_layers": False,
        "is_decoder": False,
        "layer_norm_eps": LAYER_NORM_EPS,
    },
    needed={"is_decoder": False},
    written={"qa_dropout": 0.0},
)
ELECTRA = Family(
    "electra",
    "Electra",
    more_classes={("replaced_token",): "ForPreTraining"},
    parts={
        "bert.embeddings.projection": "bert.embeddings_project",
        "cls.predictions.transform": "generator_predictions",
        "cls.predictions.": "generator_lm_head.",
    },
    parts_of_heads={
        "classifier": {"classifier.": "classifier.out_proj.", "bert.pooler.dense": "classifier.dense"},
        "multiple_choice": {"bert.pooler.dense": "sequence_summary.summary"},
    },
    tied={"generator_lm_head.weight": "bert/embeddings/word_embeddings"},
    defaults={
        "embedding_size": 128,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
    },
    # Its heads have the exact gelu, whatever hidden_act is.
    switches={"hidden_act": "gelu_erf", "pooler_act": "gelu_erf", "has_shared_layers": False, "is_decoder": False},
    needed={
        "is_decoder": False,
        "hidden_act": "gelu",
        "summary_activation": "gelu",
        "summary_type": "first",
        "summary_use_proj": True,
    },
    written={"summary_activation": "gelu", "summary_type": "first", "summary_use_proj": True},
)
ALBERT = Family(
    "albert",
    "Albert",
    more_classes=_PRETRAINING,
    parts={
        "bert.embeddings.projection": "bert.encoder.embedding_hidden_mapping_in",
        "bert.encoder.layer.{i}.": "bert.encoder.albert_layer_groups.0.albert_layers.0.",
        ".attention.self.": ".attention.",
        ".attention.output.": ".attention.",
        ".intermediate.dense": ".ffn",
        ".output.dense": ".ffn_output",
        ".output.LayerNorm": ".full_layer_layer_norm",
        "bert.pooler.dense": "bert.pooler",
        "cls.predictions.transform.": "predictions.",
        "cls.predictions.": "predictions.",
        "cls.seq_relationship": "sop_classifier.classifier",
    },
    tied={
        "predictions.decoder.weight": "bert/embeddings/word_embeddings",
        "predictions.decoder.bias": "cls/predictions/output_bias",
    },
    config_keys={"classifier_dropout": "classifier_dropout_prob"},
    defaults={
        "classifier_dropout": 0.1,
        "vocab_size": 30000,
        "embedding_size": 128,
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    },
    switches={"has_shared_layers": True, "pooler_act": "tanh", "is_decoder": False},
    needed={"is_decoder": False, "num_hidden_groups": 1, "inner_group_num": 1},
    written={"num_hidden_groups": 1, "inner_group_num": 1},
)
FAMILIES = {family.model_type: family for family in (BERT, DISTILBERT, ELECTRA, ALBERT)}


def family_of(config: BertConfig) -> Family:
    """Returns the family that has a model with this config; raises ValueError if there is none."""
    if config.pooling != "cls" or config.pooler_act == "unit_length":
        raise Mistake(
            "the Hugging Face layout has no classes for the pooler of this model (pooling {}, "
            "pooler_act {} in its config); write a TensorFlow checkpoint, or export the "
            "model with export_model.py",
            config.pooling,
            config.pooler_act,
        )
    for family in FAMILIES.values():
        if family.fits(config):
            return family
    names = ("hidden_act", "type_vocab_size", "layer_norm_eps", *_SWITCHES)
    values = ", ".join(f"{name} {getattr(config, name)}" for name in names)
    raise Mistake(
        "no model of the Hugging Face layout has {} together; write a TensorFlow checkpoint, or take the "
        "config of one of {}",
        values,
        ", ".join(FAMILIES),
    )


def check_pooled_token(config: BertConfig, heads: Collection[str], source: str) -> None:
    """Refuses a left-to-right model with a head on the pooled token, which is another one in the Hugging Face layout.

    Raises:
        ValueError: `source`, the place of the model in the message, has such a head.
    """
    pooled = [head for head in heads if head in _POOLED_HEADS]
    if config.is_decoder and pooled:
        raise Mistake(
            "{} has is_decoder and the head {}: with transformers this head reads the first token, which "
            "sees no other, and in bert-keras the last one; take a TensorFlow checkpoint, or leave the head "
            "out (convert_checkpoint.py --head)",
            source,
            " and ".join(pooled),
        )
