"""Compares the speed of inference with transformers (PyTorch) and keras-hub; the programs take turns.

    python benchmarks/inference.py

Inference is the encoder's step from token ids to the vectors of all tokens. bfloat16 is the fastest use of it in each
library: for the products in keras-hub, for the whole model here and in transformers. ONNX Runtime runs the network of
transformers after the optimizations that it has for BERT. Prints tables in Markdown. Needs pip install '.[peers]'.
"""

import os
import pathlib
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import onnxruntime
import tensorflow as tf
import torch
import transformers
from onnxruntime.transformers import optimizer

from benchmarks import peers, speed
from bert_keras.cli.flags import as_program
from bert_keras.modeling import BertModel
from bert_keras.modeling.fused import fused_operations
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.prediction.precision import may_fuse


def main(argv):
    """Runs the benchmark."""
    torch.set_num_threads(os.cpu_count())
    speed.compare(argv, __doc__, make_programs, speed.encoder_operations)


def make_programs(config, batch):
    """Returns a dict of functions by name; each makes a program."""
    programs = {
        "bert-keras graph float32": lambda: ours(config, batch, "float32", is_compiled=False),
        "bert-keras graph bfloat16": lambda: ours(config, batch, "bfloat16", is_compiled=False),
        "bert-keras XLA float32": lambda: ours(config, batch, "float32", is_compiled=True),
        "transformers float32": lambda: transformers_encoder(config, batch, dtype=torch.float32),
        "transformers bfloat16": lambda: transformers_encoder(config, batch, dtype=torch.bfloat16),
        "keras-hub graph float32": lambda: keras_hub_encoder(config, batch, "float32", is_compiled=False),
        "keras-hub graph bfloat16": lambda: keras_hub_encoder(config, batch, "mixed_bfloat16", is_compiled=False),
        "keras-hub XLA float32": lambda: keras_hub_encoder(config, batch, "float32", is_compiled=True),
        "ONNX Runtime float32": lambda: onnx_runtime_encoder(config, batch),
    }
    if peers.has_compiler():
        programs |= {
            f"transformers compiled {name}": lambda dtype=dtype: transformers_encoder(
                config, batch, dtype, is_compiled=True
            )
            for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
        }
    return programs


def ours(config, batch, policy, is_compiled):
    """Returns a function that encodes a batch with this project's network, as predictors do."""
    with dtype_policy(policy):
        model = BertModel(config)
    inputs = [tf.constant(batch[name]) for name in ("input_ids", "input_mask", "segment_ids")]

    def call(*inputs):
        with fused_operations(may_fuse(policy)):
            return model(*inputs)["sequence_output"]

    encode = tf.function(call, jit_compile=is_compiled)
    return lambda: encode(*inputs).numpy()


def transformers_encoder(config, batch, dtype, is_compiled=False):
    """Returns a function that encodes a batch with transformers' BertModel."""
    model = transformers.BertModel(peers.transformers_config(config)).eval().to(dtype)
    model = torch.compile(model) if is_compiled else model
    inputs = peers.torch_inputs(batch)

    def encode():
        with torch.inference_mode():
            return model(**inputs).last_hidden_state

    return encode


def onnx_runtime_encoder(config, batch):
    """Returns a function that encodes a batch with transformers' BertModel in ONNX Runtime."""
    model = transformers.BertModel(peers.transformers_config(config)).eval()
    inputs = peers.torch_inputs(batch)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.onnx")
        torch.onnx.export(model, kwargs=inputs, f=file, dynamo=True, external_data=False)
        sizes = {"num_heads": config.num_attention_heads, "hidden_size": config.hidden_size}
        optimizer.optimize_model(file, model_type="bert", **sizes).save_model_to_file(file)
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    return lambda: session.run(None, arrays)[0]


def keras_hub_encoder(config, batch, policy, is_compiled):
    """Returns a function that encodes a batch with keras-hub's BertBackbone."""
    model = peers.keras_hub_backbone(config, policy)
    inputs = {name: tf.constant(values) for name, values in peers.keras_hub_inputs(batch).items()}
    encode = tf.function(lambda inputs: model(inputs, training=False)["sequence_output"], jit_compile=is_compiled)
    return lambda: encode(inputs).numpy()


if __name__ == "__main__":
    as_program(main)
