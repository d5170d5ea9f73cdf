"""Tiny configs of the variants of BERT, by the model types of the Hugging Face layout."""

from tiny_bert import make_config

SWITCHES = {
    "distilbert": {"type_vocab_size": 0, "pooler_act": "relu", "hidden_act": "gelu_erf"},
    "electra": {"embedding_size": 4, "pooler_act": "gelu_erf", "hidden_act": "gelu_erf"},
    "albert": {"embedding_size": 4, "has_shared_layers": True},
}


def make_variant(model_type, **changes):
    """Returns the config of a variant, of width 8 and two layers."""
    return make_config(**(SWITCHES[model_type] | changes))
