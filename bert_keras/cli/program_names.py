"""The programs by their names: files of a clone, and subcommands of `bert-keras`, which an installation has."""

import os
import re
import sys

# Program and purpose of each subcommand. A program with a dot is a module below bert_keras, the others are training
# programs, see programs/command.py.
GROUPS = {
    "Train": {
        "try": ("commands.try_file", "what your file holds, a first classifier, wrong labels"),
        "classify": ("run_classifier", "classes, numbers, several labels or multiple choice"),
        "few-shot": ("run_few_shot", "a classifier from a few labels of each class"),
        "tag": ("run_ner", "tags of words, such as names"),
        "answer": ("run_squad", "answers to questions in a text"),
        "rerank": ("run_reranker", "the order of texts for a query"),
        "vectors": ("run_sentence_vectors", "vectors of texts, for similarity and search"),
        "pretrain": ("run_pretraining", "BERT itself, on your own text"),
    },
    "Use a model": {
        "predict": ("commands.predict", "answers for your texts"),
        "serve": ("commands.serve", "a page in the browser, and answers over HTTP"),
        "export": ("commands.export_model", "a SavedModel, ONNX, OpenVINO, LiteRT or a web page"),
        "extract-features": ("commands.extract_features", "vectors of texts, from any layer"),
        "evaluate": ("commands.evaluate_predictions", "scores of predictions against the correct answers"),
    },
    "Check": {
        "check-labels": ("check_labels", "wrong labels, and the texts to label next"),
        "check-model": ("commands.check_model", "how a model of another library is read"),
        "check-tpu": ("commands.check_tpu", "whether a training step fits on a TPU, without one"),
    },
    "Prepare": {
        "convert": ("commands.convert_checkpoint", "downloads, formats of checkpoints, further words"),
        "build-vocab": ("data_prep.build_vocab", "a vocabulary from your text"),
        "create-data": ("data_prep.create_pretraining_data", "examples for pre-training"),
        "create-data-beam": ("data_prep.create_pretraining_data_beam", "the same on many machines"),
    },
}
MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
_SUBCOMMANDS = {module.rpartition(".")[2]: name for name, module in MODULES.items()}
# A program in a text, with the words before it in a command; not in a path of the user.
_PROGRAM = re.compile(rf"(?<![\w./-])(?:python )?(?:data_prep/|tools/)?({'|'.join(_SUBCOMMANDS)})\.py\b")


def as_started(text: str) -> str:
    """Returns a text for the user with the names of programs that fit the way in which this process was started."""
    start, _, subcommand = os.path.basename(sys.argv[0]).rpartition(" ")
    if subcommand not in MODULES:
        return text
    return _PROGRAM.sub(lambda match: f"{start} {_SUBCOMMANDS[match[1]]}", text)
