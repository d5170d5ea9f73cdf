"""The demo: settings that train and evaluate a tiny model on the sample text in about two minutes."""

import dataclasses
import logging
import os
import pathlib

from bert_keras import data_prep
from bert_keras.data_prep.pretraining.build import build_pretraining_data
from bert_keras.data_prep.pretraining.instances import PretrainingDataSettings
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.modeling.config import BertConfig

log = logging.getLogger("bert_keras")

_DEMO_DIR = "bert_demo"
_SAMPLE = pathlib.Path(data_prep.__file__).parent / "sample"
_DATA_SETTINGS = PretrainingDataSettings(max_seq_length=64, max_predictions_per_seq=10, dupe_factor=20)
_TRAINING_SETTINGS = {
    "do_train": True,
    "do_eval": True,
    "train_batch_size": 32,
    "eval_batch_size": 32,
    "learning_rate": 1e-3,
    "num_train_steps": 1000,
    "num_warmup_steps": 100,
    "eval_steps": 250,
    "save_checkpoints_steps": 500,
}


def prepare_demo():
    """Builds the records of the demo from the sample text, and returns its settings by flag name."""
    log.info(
        "No flags were given, so this is a demo: it builds examples from a sample text, pre-trains a tiny BERT on them "
        "for about two minutes, and evaluates it on documents that it did not train on. All of it goes into %s/.",
        _DEMO_DIR,
    )
    folder = pathlib.Path(_DEMO_DIR).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    vocab_file = str(_SAMPLE / "vocab.txt")
    tokenizer = FullTokenizer(vocab_file)
    records = {"input_file": ("documents.txt", "train.tfrecord"), "eval_file": ("held_out.txt", "held_out.tfrecord")}
    settings = {}
    for flag, (text, record_file) in records.items():
        settings[flag] = path = str(folder / record_file)
        # A record file gets its final name when it is complete, so one with the same settings is reused.
        built = read_metadata(path) if os.path.exists(path) else None
        if built and dataclasses.asdict(_DATA_SETTINGS).items() <= built["settings"].items():
            log.info("%s exists already", path)
        else:
            build_pretraining_data([str(_SAMPLE / text)], [path], tokenizer, _DATA_SETTINGS, vocab_file)
    settings["bert_config_file"] = str(folder / "bert_config.json")
    config = dataclasses.replace(BertConfig.from_name("tiny"), vocab_size=len(tokenizer.vocab))
    config.to_json_file(settings["bert_config_file"])
    return {
        **settings,
        **_TRAINING_SETTINGS,
        "vocab_file": vocab_file,
        "output_dir": str(folder / "model"),
        "max_seq_length": _DATA_SETTINGS.max_seq_length,
        "max_predictions_per_seq": _DATA_SETTINGS.max_predictions_per_seq,
    }
