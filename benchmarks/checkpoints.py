"""Compares this project with transformers (PyTorch) and keras-hub: the same weights, converted in both directions.

    python benchmarks/checkpoints.py --work_dir=/tmp/checkpoints

All weights are random, biases and gammas included. One library writes them to files, convert_checkpoint.py converts the
files if necessary, and the other library reads them. keras-hub cannot write the formats of other libraries, so its
weights are taken from the model. The first table, in Markdown, has the largest difference of each output on sequences
of different lengths. Its rows with the other gelu show how the comparison detects an error. The second table covers
every class, in a small size. Needs pip install '.[peers]'.
"""

import logging
import os
import pathlib
import platform
import shutil
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import dataclasses

import keras
import keras_hub
import numpy as np
import tensorflow as tf
import torch
import transformers
from absl import flags

import convert_checkpoint
from benchmarks import peers
from benchmarks.machine import make_work_dir, use_device
from benchmarks.speed import read_config
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.modeling import (
    BertConfig,
    PretrainingModel,
    load_weights,
    open_checkpoint,
    save_checkpoint,
    weights_by_name,
)

OURS, TORCH, HUB = "bert-keras", "transformers", "keras-hub"
_CLASSES = {
    "BertModel": None,
    "BertForPreTraining": None,
    "BertForMaskedLM": None,
    "BertForNextSentencePrediction": None,
    "BertForSequenceClassification": "classifier",
    "BertForTokenClassification": "token_classifier",
    "BertForQuestionAnswering": None,
    "BertForMultipleChoice": "multiple_choice",
}
_SIZE_OF_CLASSES = "small"
_OUTPUTS = ("sequence_output", "pooled_output", "masked_lm_logits", "next_sentence_logits")
# keras-hub's names for the beginnings of our weight names.
_HUB_NAMES = {
    "bert/embeddings/word_embeddings": "token_embedding/embeddings",
    "bert/embeddings/position_embeddings": "position_embedding/embeddings",
    "bert/embeddings/token_type_embeddings": "segment_embedding/embeddings",
    "bert/embeddings/LayerNorm": "embeddings_layer_norm",
    "bert/pooler/dense": "pooled_dense",
    "attention/self": "self_attention_layer",
    "attention/output/dense": "self_attention_layer/attention_output",
    "attention/output/LayerNorm": "self_attention_layer_norm",
    "intermediate/dense": "feedforward_intermediate_dense",
    "output/dense": "feedforward_output_dense",
    "output/LayerNorm": "feedforward_layer_norm",
}


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("work_dir", None, "Folder for checkpoints; new or empty.", flag_values=values)
    flags.DEFINE_string(
        "bert_config_file", "uncased_L-12_H-768_A-12", "A bert_config.json, or a released name.", flag_values=values
    )
    flags.DEFINE_integer("num_tokens", 128, "Length of the sequences.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("work_dir",))
    use_device("cpu")  # so that all three compute on the same device
    config = read_config(values.bert_config_file)
    work_dir = make_work_dir(values.work_dir)
    transformers.utils.logging.set_verbosity_error()
    logging.getLogger("bert_keras").setLevel(logging.ERROR)
    features = make_features(config, values.num_tokens)
    libraries = {"TensorFlow": tf, "Keras": keras, "PyTorch": torch, "transformers": transformers}
    libraries["keras-hub"] = keras_hub
    versions = ", ".join(
        [f"Python {platform.python_version()}", *(f"{n} {m.__version__}" for n, m in libraries.items())]
    )
    print(f"`python {' '.join(argv)}`\n\n{versions}; CPU\n")
    print(f"| from | to | gelu | {' | '.join(_OUTPUTS)} |")
    print(f"| --- | --- | --- | {' | '.join(['---:'] * len(_OUTPUTS))} |")
    for act in ("gelu", "gelu_erf"):
        folder = work_dir / act
        ours_to_others(dataclasses.replace(config, hidden_act=act), folder, features)
        transformers_to_ours(dataclasses.replace(config, hidden_act=act), folder, features)
    hub_to_ours(config, work_dir / "hub", features)
    config = BertConfig.from_name(_SIZE_OF_CLASSES)
    print(f"\nOf the size `{_SIZE_OF_CLASSES}`:\n")
    print("| class of transformers | entries | through `.ckpt` and back: bits | largest difference of its outputs |")
    print("| --- | ---: | --- | ---: |")
    features = make_features(config, values.num_tokens)
    for class_name, head in _CLASSES.items():
        there_and_back(class_name, head, config, work_dir / class_name, features)


def make_features(config, num_tokens):
    """Makes four sequences of different lengths, each with two segments and five positions to predict."""
    random = np.random.default_rng(0)
    lengths = np.array([num_tokens, num_tokens // 2, num_tokens // 3, 7])[:, None]
    columns = np.arange(num_tokens)
    input_mask = (columns < lengths).astype(np.int32)
    return {
        "input_ids": random.integers(0, config.vocab_size, input_mask.shape).astype(np.int32) * input_mask,
        "input_mask": input_mask,
        "segment_ids": (columns >= lengths // 2).astype(np.int32) * input_mask,
        "masked_lm_positions": random.integers(0, 7, (4, 5)).astype(np.int32),
    }


def ours_to_others(config, folder, features):
    """Stores our random model as the original BERT would, converts it, and compares it in both libraries."""
    model = make_model(config)
    save_checkpoint(folder / "ours" / "bert_model.ckpt", weights_by_name(model))
    config.to_json_file(folder / "ours" / "bert_config.json")
    convert(folder / "ours", folder / "ours_safetensors", "safetensors")
    expected = run_ours(model, features)
    gelu = {"gelu": "tanh", "gelu_erf": "erf"}[config.hidden_act]
    print_row(OURS, TORCH, gelu, expected, run_transformers(load_transformers(folder / "ours_safetensors"), features))
    other = load_transformers(folder / "ours_safetensors", hidden_act={"tanh": "gelu", "erf": "gelu_new"}[gelu])
    print_row(OURS, f"{TORCH}, given the other gelu", gelu, expected, run_transformers(other, features))
    # keras-hub ignores the config and always uses the tanh form of gelu.
    note = "" if gelu == "tanh" else ", which has only tanh"
    backbone = keras_hub.models.BertBackbone.from_preset(str(folder / "ours_safetensors"))
    print_row(OURS, HUB + note, gelu, expected, run_hub(backbone, features))


def transformers_to_ours(config, folder, features):
    """Saves a random model of transformers in shards, converts it to TensorFlow, and compares it in our model."""
    torch.manual_seed(0)
    act = {"gelu": "gelu_new", "gelu_erf": "gelu"}[config.hidden_act]
    model = make_transformers("BertForPreTraining", config, hidden_act=act)
    model.save_pretrained(folder / "torch", max_shard_size="100MB")
    convert(folder / "torch", folder / "torch_tensorflow", "tensorflow")
    checkpoint = open_checkpoint(folder / "torch_tensorflow")
    assert checkpoint.config.hidden_act == config.hidden_act
    ours = PretrainingModel(checkpoint.config)
    load_weights(weights_by_name(ours), checkpoint)
    gelu = {"gelu": "tanh", "gelu_erf": "erf"}[config.hidden_act]
    print_row(TORCH, OURS, gelu, run_transformers(model, features), run_ours(ours, features))


def hub_to_ours(config, folder, features):
    """Writes a random model of keras-hub under the original BERT's names, and compares it in our model."""
    keras.utils.set_random_seed(1)
    backbone = peers.keras_hub_backbone(config)
    theirs = {weight.path: weight for weight in backbone.weights}
    randomize(theirs)
    ours = PretrainingModel(config).bert
    tensors = {
        name: np.asarray(theirs.pop(hub_name(name))).reshape(weight.shape)
        for name, weight in weights_by_name(ours).items()
    }
    assert not theirs, theirs
    save_checkpoint(folder / "bert_model.ckpt", tensors)
    load_weights(weights_by_name(ours), folder)
    print_row(HUB, OURS, "tanh", run_hub(backbone, features), run_ours(ours, features))


def there_and_back(class_name, head, config, folder, features):
    """Saves a random model of transformers, converts it to TensorFlow and back, and compares weights and outputs."""
    torch.manual_seed(0)
    model = make_transformers(class_name, config)
    model.save_pretrained(folder / "torch")
    convert(folder / "torch", folder / "tensorflow", "tensorflow")
    convert(folder / "tensorflow", folder / "back", "safetensors", **({"head": head} if head else {}))
    first, second = open_checkpoint(folder / "torch"), open_checkpoint(folder / "back")
    same = sum(np.array_equal(first.read(name), second.read(name)) for name in first.names)
    assert first.names == second.names
    outputs = [run_class(m, features) for m in (model, load_transformers(folder / "back", class_name))]
    difference = max(float((a - b).abs().max()) for a, b in zip(*outputs, strict=True))
    print(f"| {class_name} | {len(first.names)} | {same} of {len(first.names)} the same | {difference:g} |", flush=True)
    shutil.rmtree(folder)


def make_model(config):
    """Makes our pre-training model with random weights."""
    model = PretrainingModel(config)
    randomize(weights_by_name(model))
    return model


def randomize(weights):
    """Gives every weight random values (gammas around 1, others around 0), so that a missing weight shows."""
    random = np.random.default_rng(0)
    for name, weight in weights.items():
        weight.assign(random.normal(1.0 if name.endswith("gamma") else 0.0, 0.05, weight.shape).astype(np.float32))


def make_transformers(class_name, config, hidden_act="gelu_new"):
    """Makes a model of transformers with random weights."""
    sizes = {name: value for name, value in config.to_dict().items() if name != "hidden_act"}
    num_labels = 2 if class_name == "BertForQuestionAnswering" else 3
    settings = transformers.BertConfig(**sizes, hidden_act=hidden_act, num_labels=num_labels)
    model = getattr(transformers, class_name)(settings).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.05)
    return model


def load_transformers(folder, class_name="BertForPreTraining", **changes):
    """Loads a model of transformers; its weights and those of the files must be the same set."""
    model, info = getattr(transformers, class_name).from_pretrained(folder, output_loading_info=True, **changes)
    assert not any(info.values()), info
    return model.eval()


def run_ours(model, features):
    """Runs our model, or our encoder; returns a dict of arrays."""
    bert = getattr(model, "bert", model)
    encoded = bert(features["input_ids"], features["input_mask"], features["segment_ids"])
    outputs = {name: encoded[name] for name in ("sequence_output", "pooled_output")}
    if model is not bert:
        outputs |= model(features)
    return {name: np.asarray(value) for name, value in outputs.items()}


def run_transformers(model, features):
    """Runs a BertForPreTraining of transformers; returns a dict of arrays."""
    with torch.no_grad():
        inputs = peers.torch_inputs(features)
        encoded = model.bert(**inputs)
        rows = np.arange(len(features["input_ids"]))[:, None]
        masked = encoded.last_hidden_state[rows, features["masked_lm_positions"]]
        masked_lm, next_sentence = model.cls(masked, encoded.pooler_output)
    outputs = (encoded.last_hidden_state, encoded.pooler_output, masked_lm, next_sentence)
    return {name: value.numpy() for name, value in zip(_OUTPUTS, outputs, strict=True)}


def run_class(model, features):
    """Runs a model of transformers of any class; returns its outputs, a list of tensors."""
    inputs = peers.torch_inputs(features)
    if type(model).__name__ == "BertForMultipleChoice":
        inputs = {name: value[None] for name, value in inputs.items()}
    with torch.no_grad():
        return list(model(**inputs).to_tuple())


def run_hub(backbone, features):
    """Runs an encoder of keras-hub; returns a dict of arrays."""
    outputs = backbone(peers.keras_hub_inputs(features))
    return {name: np.asarray(outputs[name]) for name in ("sequence_output", "pooled_output")}


def hub_name(name):
    """Returns keras-hub's name for one of our weights."""
    layer, _, rest = name.removeprefix("bert/encoder/layer_").partition("/")
    if name == f"bert/encoder/layer_{layer}/{rest}":
        beginning, name = f"transformer_layer_{layer}/", rest
    else:
        beginning = ""
    part = max((part for part in _HUB_NAMES if name.startswith(part)), key=len)
    return beginning + _HUB_NAMES[part] + name.removeprefix(part)


def convert(source, target, format_, **more):
    """Runs convert_checkpoint.py without its log lines."""
    arguments = {"input": source, "output": target, "format": format_, **more}
    convert_checkpoint.open_console = lambda: None
    convert_checkpoint.main(["convert_checkpoint.py", *(f"--{name}={value}" for name, value in arguments.items())])


def print_row(source, target, gelu, expected, computed):
    """Prints a row of the table."""
    differences = [
        f"{np.max(np.abs(expected[name] - computed[name])):.1e}" if name in expected and name in computed else ""
        for name in _OUTPUTS
    ]
    print(f"| {source} | {target} | {gelu} | {' | '.join(differences)} |", flush=True)


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
