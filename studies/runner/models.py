"""The models of a study: pre-trained from random weights on the study's text, or left at random weights."""

import pathlib
import shutil
from typing import Any

import keras

from bert_keras.modeling import BertConfig, PretrainingModel, save_checkpoint, weights_by_name
from bert_keras.programs.pretraining import pretrain
from studies.runner.cells import Cells
from studies.runner.corpus import Corpus
from studies.runner.study import Scale, Variant

_MODEL = "model"


def model_settings(corpus: Corpus, scale: Scale, variant: Variant, seed: int) -> dict[str, Any]:
    """Returns the settings that determine a model, and name its cell."""
    settings = {
        "corpus": corpus.digest,
        "config": {"vocab_size": corpus.vocab_size, **scale.config},
        "seed": seed,
    }
    if variant.is_trained:
        settings["records"] = {**scale.records, **variant.records, "random_seed": seed}
        settings["training"] = {**scale.training, **variant.training}
        settings["training"]["num_train_steps"] = step_of(scale, variant, 1.0)
        settings["training"]["save_checkpoints_steps"] = step_of(scale, variant, variant.saved_share)
    return settings


def step_of(scale: Scale, variant: Variant, share: float) -> int:
    """Returns the training step after a share of all steps. Checkpoints have the same number of steps between them."""
    num_steps = round(variant.num_steps_factor * {**scale.training, **variant.training}["num_train_steps"])
    saved = max(1, int(num_steps * variant.saved_share))
    return num_steps if share == 1 else round(share / variant.saved_share) * saved


def model_folder(cells: Cells, corpus: Corpus, settings: dict[str, Any]) -> str:
    """Returns the folder of a model with its weights, config and vocabulary; trains it if it is not there.

    An interrupted training continues from its last checkpoint.
    """
    config = BertConfig(**settings["config"])

    def train(folder: pathlib.Path) -> dict[str, Any]:
        config.to_json_file(folder / "bert_config.json")
        records = settings["records"]
        lengths = {name: records[name] for name in ("max_seq_length", "max_predictions_per_seq")}
        pretrain(
            corpus.records(records),
            output_dir=folder / _MODEL,
            bert_config_file=folder / "bert_config.json",
            vocab_file=corpus.vocab_file,
            seed=settings["seed"],
            verbose=False,
            keep_checkpoint_max=0,
            **lengths,
            **settings["training"],
        )
        return {"weights": _count(config)}

    def initialise(folder: pathlib.Path) -> dict[str, Any]:
        target = folder / _MODEL
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        keras.utils.set_random_seed(settings["seed"])
        model = PretrainingModel(config, dtype="float32")
        save_checkpoint(target / "bert_model.ckpt", weights_by_name(model))
        config.to_json_file(target / "bert_config.json")
        shutil.copy(corpus.vocab_file, target / "vocab.txt")
        return {"weights": _count(config)}

    cells.get("model", settings, train if "training" in settings else initialise)
    return str(cells.path("model", settings) / _MODEL)


def _count(config):
    return int(PretrainingModel(config).count_params())
