"""A released model of one layer, and the program that converts it."""

import json

from states import weights_of
from tiny_bert import make_config, make_model

from bert_keras.commands import convert_checkpoint
from bert_keras.modeling import save_checkpoint

TABLE, OUTPUT_BIAS = "bert/embeddings/word_embeddings", "cls/predictions/output_bias"
TOKENS = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "heart", "##y", "angio", "##gram"]
TOKENS += [f"w{i}" for i in range(30)]
CONFIG = make_config(num_hidden_layers=1)


def write_released(folder):
    """Writes checkpoint, config and vocabulary. Returns the folder."""
    save_checkpoint(folder / "bert_model.ckpt", weights_of(make_model(CONFIG, seed=3)))
    CONFIG.to_json_file(folder / "bert_config.json")
    (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
    return folder


def arguments(source, target, format_, **flags):
    values = {"input": source, "output": target, "format": format_, **flags}
    return ["convert_checkpoint.py", *(f"--{name}={value}" for name, value in values.items())]


def convert(source, target, format_="safetensors", **flags):
    """Converts a model with the program. Returns the folder of the result."""
    assert convert_checkpoint.main(arguments(source, target, format_, **flags)) == 0
    return target


def read_json(file):
    return json.loads(file.read_text())
