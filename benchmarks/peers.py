"""Networks of transformers and keras-hub with the sizes of a BertConfig. Needs pip install '.[peers]'."""

import shutil


def transformers_config(config, **options):
    """Returns transformers' BertConfig with the same sizes and the tanh form of gelu."""
    import transformers

    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    return transformers.BertConfig(hidden_act="gelu_new", **{name: getattr(config, name) for name in names}, **options)


def has_compiler():
    """Returns whether `torch.compile` finds the C++ compiler that it needs on a CPU."""
    return shutil.which("g++") is not None


def keras_hub_backbone(config, policy):
    """Returns keras-hub's BertBackbone with the same sizes, in a dtype policy of Keras."""
    import keras
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=config.vocab_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        hidden_dim=config.hidden_size,
        intermediate_dim=config.intermediate_size,
        max_sequence_length=config.max_position_embeddings,
        num_segments=config.type_vocab_size,
        dtype=keras.dtype_policies.get(policy),
    )


def keras_hub_inputs(batch):
    """Returns a batch under keras-hub's names."""
    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
    return {name: batch[ours] for name, ours in names.items()}


def torch_inputs(batch, device="cpu"):
    """Returns a batch as tensors under the names of transformers."""
    import torch

    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    return {theirs: torch.tensor(batch[ours], dtype=torch.long, device=device) for theirs, ours in names.items()}
