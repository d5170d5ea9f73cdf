"""Networks of transformers and keras-hub with the sizes of a BertConfig. Needs pip install '.[peers]'."""

import shutil

import numpy as np

LEARNING_RATE, WEIGHT_DECAY = 1e-4, 0.01


def transformers_config(config):
    """Returns transformers' BertConfig with the same sizes, the tanh form of gelu and attention in one operation."""
    import transformers

    names = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    sizes = {name: getattr(config, name) for name in names}
    return transformers.BertConfig(hidden_act="gelu_new", attn_implementation="sdpa", **sizes)


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


def transformers_step(config, batch, is_mixed, is_compiled=False, device="cpu", num_steps=1):
    """Returns a function that takes steps of transformers' BertForPreTraining with PyTorch's AdamW."""
    import torch
    import transformers

    model = transformers.BertForPreTraining(transformers_config(config)).train().to(device)
    network = torch.compile(model) if is_compiled else model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=device == "cuda"
    )
    labels = np.full(batch["input_ids"].shape, -100, np.int64)
    np.put_along_axis(labels, batch["masked_lm_positions"].astype(np.int64), batch["masked_lm_ids"], 1)
    inputs = torch_inputs(batch, device)
    inputs["labels"] = torch.tensor(labels, device=device)
    next_sentence = batch["next_sentence_labels"][:, 0]
    inputs["next_sentence_label"] = torch.tensor(next_sentence, dtype=torch.long, device=device)

    def step():
        for _ in range(num_steps):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=is_mixed):
                loss = network(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()  # waits for the device

    return step
