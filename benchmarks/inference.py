"""Compares the speed of inference with transformers (PyTorch) and keras-hub; the programs take turns.

    python benchmarks/inference.py

Inference is the encoder's step from token ids to the vectors of all tokens. bfloat16 is the fastest use of it in each
library: for the products here, for the whole model in transformers. Prints tables in Markdown. Needs pip install
'.[peers]'.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tensorflow as tf
import torch
import transformers

from benchmarks import peers, speed
from benchmarks.machine import torch_device
from bert_keras.cli.flags import run_main
from bert_keras.modeling import BertModel
from bert_keras.modeling.layers import dtype_policy


def main(argv):
    """Runs the benchmark."""
    torch.set_num_threads(os.cpu_count())
    speed.compare(argv, __doc__, make_programs, speed.encoder_operations)


def make_programs(config, batch, device):
    """Returns a dict of functions by name; each makes a program."""
    return {
        "bert-keras graph float32": lambda: ours(config, batch, "float32", is_compiled=False),
        "bert-keras graph bfloat16": lambda: ours(config, batch, "mixed_bfloat16", is_compiled=False),
        "bert-keras XLA float32": lambda: ours(config, batch, "float32", is_compiled=True),
        "transformers float32": lambda: of_transformers(config, batch, device, dtype=torch.float32),
        "transformers bfloat16": lambda: of_transformers(config, batch, device, dtype=torch.bfloat16),
        "keras-hub graph float32": lambda: of_keras_hub(config, batch, is_compiled=False),
        "keras-hub XLA float32": lambda: of_keras_hub(config, batch, is_compiled=True),
    }


def ours(config, batch, policy, is_compiled):
    """Returns a function that encodes a batch with this project's network."""
    with dtype_policy(policy):
        model = BertModel(config)
    inputs = [tf.constant(batch[name]) for name in ("input_ids", "input_mask", "segment_ids")]
    encode = tf.function(lambda *inputs: model(*inputs)["sequence_output"], jit_compile=is_compiled)
    return lambda: encode(*inputs).numpy()


def of_transformers(config, batch, device, dtype):
    """Returns a function that encodes a batch with transformers' BertModel."""
    device = torch_device(device)
    model = transformers.BertModel(peers.transformers_config(config)).eval().to(device, dtype)
    inputs = peers.torch_inputs(batch, device)

    def encode():
        with torch.inference_mode():
            return model(**inputs).last_hidden_state.cpu()

    return encode


def of_keras_hub(config, batch, is_compiled):
    """Returns a function that encodes a batch with keras-hub's BertBackbone."""
    model = peers.keras_hub_backbone(config)
    inputs = {name: tf.constant(values) for name, values in peers.keras_hub_inputs(batch).items()}
    encode = tf.function(lambda inputs: model(inputs, training=False)["sequence_output"], jit_compile=is_compiled)
    return lambda: encode(inputs).numpy()


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
