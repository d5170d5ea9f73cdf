"""Compares the JavaScript of a web export with Python, in Node."""

import json
import logging
import math
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.text.places import describe
from bert_keras.export.checks.comparison import ask_python, compare_answers
from bert_keras.export.checks.texts import built_in_texts, items_of
from bert_keras.export.choices import PLACES
from bert_keras.mistakes import Mistake, several
from bert_keras.model_folder.exported import WEB_MODEL
from bert_keras.prediction import open_model
from bert_keras.prediction.containers import given_fields
from bert_keras.prediction.predictor import Predictor
from bert_keras.tasks.dry_run.findings import keeping_log

log = logging.getLogger("bert_keras")


def compare_in_node(
    export: pathlib.Path, settings: Mapping[str, Any], quantized: pathlib.Path | None = None
) -> dict[str, Any]:
    """Compares the answers of JavaScript and Python to the built-in texts; both run the network of an export folder.

    settings is the task.json of the model. If a quantized network is given, JavaScript answers again with it, and the
    log reports how many answers change.

    Returns a dict: "answers", the largest difference, "num_texts", and "num_other", the number of answers that the
    quantized network changes. Without Node, {} and a warning. Raises a Mistake if answers differ.
    """
    if not shutil.which("node"):
        log.warning(
            "node is not installed, so the JavaScript of the web export was not compared with Python; to compare, "
            "install Node.js 20 or later"
        )
        return {}
    items = items_of(built_in_texts(settings))
    with keeping_log():  # the user neither opens nor asks this model
        predictor = open_model(export)
        expected, tokens = answers_of_python(predictor, items), tokens_of_python(predictor, items)
    web = export / PLACES["web"]
    found = answers_in_node(web, items)
    called = "the web export answers the check text {} differently from Python"
    largest, _ = compare_answers(called, expected, found, ranked=predictor.ranked)
    called_tokens = "the web export reads other tokens in the check text {} than Python"
    compare_answers(called_tokens, tokens, tokens_in_node(web, items))
    log.info("web, in Node: the largest difference from Python is %.2g for %s", largest, several(len(items), "texts"))
    num_other = 0
    if quantized:
        plain = web / f"{WEB_MODEL}.plain"
        (web / WEB_MODEL).rename(plain)
        shutil.copyfile(quantized, web / WEB_MODEL)
        changed = answers_in_node(web, items)
        plain.replace(web / WEB_MODEL)
        _, num_other = compare_answers(called, found, changed, math.inf, predictor.ranked)
        log.info("web: quantization changes %d of these %d answers", num_other, len(items))
    return {"answers": largest, "num_texts": len(items), "num_other": num_other}


def answers_of_python(
    predictor: Predictor, items: Sequence[Mapping[str, Any]], **options: Any
) -> list[dict[str, Any] | str]:
    """Returns the answer to each item as a dict of JSON, with its length as a server tells it, or the error, a str."""
    found = []
    for item, answer in zip(items, ask_python(predictor, items, **options), strict=True):
        if not isinstance(answer, str):
            fields = json.loads(json.dumps(given_fields(answer[0]), default=vars))
            answer = fields | {"num_tokens": sum(map(predictor.num_tokens, item.values())), "is_cut": answer[1]}
        found.append(answer)
    return found


def answers_in_node(
    web: pathlib.Path, items: Iterable[Mapping[str, Any]], **options: Any
) -> list[dict[str, Any] | str]:
    """Returns the answer of a web folder to each item, or the error, a str."""
    results = run_in_node(web, [["answers", "", [item], options] for item in items])
    return [result["error"] if "error" in result else result["value"][0] for result in results]


def tokens_of_python(predictor: Predictor, items: Iterable[Mapping[str, Any]]) -> list[list[dict[str, Any]] | str]:
    """Returns the sequences of tokens with their places that a model reads for each item, or the error, a str."""
    found = []
    for item in items:
        try:
            found.append([{"tokens": describe(predictor.tokenizer, tokens)} for tokens, _ in predictor.tokens(item)])
        except Mistake as error:
            found.append(str(error))
    return found


def tokens_in_node(web: pathlib.Path, items: Iterable[Mapping[str, Any]]) -> list[list[dict[str, Any]] | str]:
    """Returns the same of a web folder."""
    results = run_in_node(web, [["tokens", "", item] for item in items])
    return [result["error"] if "error" in result else result["value"] for result in results]


def run_in_node(web: pathlib.Path, calls: list[list[Any]]) -> list[dict[str, Any]]:
    """Calls functions of the backend of a web folder, each a list of a name and arguments.

    Returns a list of dicts with "value" or "error".
    """
    # Node reads a .js file as a module only if the package.json of a folder above has this type.
    settings = web.parent / "package.json"
    settings.write_text('{"type": "module"}')
    try:
        with tempfile.TemporaryDirectory() as folder:
            input_file, output_file = pathlib.Path(folder, "input.json"), pathlib.Path(folder, "output.json")
            input_file.write_text(json.dumps(calls))
            program = pathlib.Path(__file__).with_suffix(".mjs")
            process = subprocess.run(["node", program, web, input_file, output_file], capture_output=True, check=False)
            if process.returncode:
                lines = process.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
                reason = next((line for line in lines if "Error" in line), lines[-1])
                raise Mistake("the web export does not run in Node: {}", reason)
            return json.loads(output_file.read_text())
    finally:
        settings.unlink()
