"""A fine-tuned model that is converted: its place, class names, task.json and vocabulary."""

import dataclasses
import json
import logging
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import TOKENIZER_FILE, preparation_text
from bert_keras.model_folder.sentence_transformers import has_modules, module_files, read_modules
from bert_keras.model_folder.tasks import FINE_TUNED_TASKS
from bert_keras.modeling.checkpoints.hub import TASK_FILE, local_model, model_of_run
from bert_keras.modeling.checkpoints.hugging_face_config import PROBLEM_TYPES
from bert_keras.modeling.config import read_json_object
from bert_keras.storage import paths
from bert_keras.storage.vocabulary import VOCABULARY_FILE, vocabulary_bytes

log = logging.getLogger("bert_keras")

_PROBLEM_TYPES: dict[Any, str] = dict(zip(("classification", "multi_label", "regression"), PROBLEM_TYPES, strict=True))


def find_input(path, keep_optimizer):
    """Returns the path of the checkpoint to convert; for a fine-tuning run, that of its model."""
    path = local_model(path)
    model = model_of_run(path)
    if model == path:
        return path
    if keep_optimizer:
        raise Mistake(
            "{keep_optimizer}: {} is a run of fine-tuning, whose model in {} has only weights; leave the "
            "flag out, or give one of the checkpoints {} as {input}, with {bert_config_file}={}",
            path,
            model,
            paths.join(path, "model.ckpt-<step>"),
            paths.join(model, "bert_config.json"),
        )
    log.info("%s is a run of fine-tuning: converting its model in %s", path, model)
    return model


def read_task(checkpoint):
    """Returns the task.json in the folder of a checkpoint, a dict, or what the modules of sentence-transformers say.

    The result is None if neither exists.
    """
    folder = paths.parent(checkpoint.prefix)
    file = paths.join(folder, TASK_FILE)
    if not paths.is_file(file):
        return read_modules(folder)[1] if has_modules(folder) else None
    settings = read_json_object(file)
    if settings.get("task") not in FINE_TUNED_TASKS:
        raise ValueError(
            f'{file}: the task is "{settings.get("task")}", but must be one of {", ".join(FINE_TUNED_TASKS)}'
        )
    return settings


def describe_head(contents, checkpoint, settings, given):
    """Returns Contents with the names of the classes, the `given` ones if any, and the problem type of the head.

    The type says how other libraries make probabilities of a classifier's logits.
    """
    # A multiple-choice head has one score, even if its config names classes. Other heads have no classes.
    if not {"classifier", "token_classifier"} & set(contents.heads):
        if given:
            raise Mistake("{labels}: no head with named classes is written; leave the flag out")
        return contents
    problem_type = None
    if "classifier" in contents.heads:
        problem_type = _PROBLEM_TYPES.get((settings or {}).get("task"), checkpoint.problem_type)
    return dataclasses.replace(contents, labels=_choose_labels(checkpoint, settings, given), problem_type=problem_type)


def _choose_labels(checkpoint, settings, given):
    """Chooses the names of the classes of a checkpoint with a classification head.

    The names come from the first of these: the user, task.json, config.json. The default names LABEL_0, LABEL_1, ... of
    config.json do not count. Without any, the result is None.
    """
    of_config, of_task = checkpoint.labels, (settings or {}).get("labels")
    if of_config == [f"LABEL_{number}" for number in range(len(of_config or ()))]:
        of_config = None
    if not given and of_config and of_task and of_config != of_task:
        raise Mistake(
            "{} names the classes {} in {} and {} in config.json; correct one of them, or give {labels}",
            paths.parent(checkpoint.prefix),
            [*of_task],
            TASK_FILE,
            [*of_config],
        )
    labels = given or of_task or of_config
    num_rows = checkpoint.shape("output_bias")[0] if "output_bias" in checkpoint.names else None
    if labels and num_rows is not None and len(labels) != num_rows:
        raise Mistake(
            "{} labels were given, but the head has {} rows; give one for each with {labels}", len(labels), num_rows
        )
    return labels


def write_task(folder, settings, contents, format_):
    """Writes the task.json of a converted model, so that the programs that predict can use it.

    For vectors in the format "safetensors", it also writes the files with which sentence-transformers opens the folder.
    """
    labels = contents.labels
    settings = settings | ({"labels": labels} if labels and "labels" in settings else {})
    files = {TASK_FILE: json.dumps(settings, indent=2, ensure_ascii=False) + "\n"}
    if settings["task"] == "vectors" and format_ == "safetensors":
        files |= module_files(settings, contents.config.hidden_size)
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def write_vocabulary(folder, vocab_file, tokens, preparation):
    """Writes the vocabulary of a converted model, with the given tokens if not None, and how to prepare text."""
    content = vocabulary_bytes(vocab_file) if tokens is None else "".join(f"{token}\n" for token in tokens).encode()
    (folder / VOCABULARY_FILE).write_bytes(content)
    (folder / TOKENIZER_FILE).write_text(preparation_text(preparation), encoding="utf-8")
