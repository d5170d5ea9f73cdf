"""Compares the JavaScript of a web export with Python, in Node."""

import contextlib
import json
import logging
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bert_keras.export.checks.texts import built_in_texts
from bert_keras.export.choices import PLACES
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import WEB_MODEL
from bert_keras.prediction import open_model
from bert_keras.prediction.answer_lines import given_fields
from bert_keras.prediction.predictor import Predictor
from bert_keras.tasks.pretraining.token_places import read_tokens

log = logging.getLogger("bert_keras")

# Maximum difference of two numbers, relative to the largest number of an answer if that is above 1.
TOLERANCE = 1e-4


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
    items = check_items(settings)
    with _quiet():
        predictor = open_model(export)
        expected, tokens = answers_of_python(predictor, items), tokens_of_python(predictor, items)
    web = export / PLACES["web"]
    found = answers_in_node(web, items)
    largest = 0.0
    for number, (first, second) in enumerate(zip(expected, found, strict=True), 1):
        try:
            largest = max(largest, difference_of(first, second))
        except Mistake as error:
            raise Mistake(
                "the web export answers the check text {} differently from Python: {}", number, error
            ) from None
    for number, (first, second) in enumerate(zip(tokens, tokens_in_node(web, items), strict=True), 1):
        if isinstance(first, list) and first != second:
            told = next((pair for pair in zip(_places(first), _places(second), strict=False) if pair[0] != pair[1]), "")
            raise Mistake("the web export reads other tokens in the check text {} than Python: {!s}", number, told)
    log.info("web, in Node: the largest difference from Python is %.2g for %d texts", largest, len(items))
    num_other = 0
    if quantized:
        plain = web / f"{WEB_MODEL}.plain"
        (web / WEB_MODEL).rename(plain)
        shutil.copyfile(quantized, web / WEB_MODEL)
        num_other = sum(map(_is_other, found, answers_in_node(web, items)))
        plain.replace(web / WEB_MODEL)
        log.info("web: quantization changes %d of these %d answers", num_other, len(items))
    return {"answers": largest, "num_texts": len(items), "num_other": num_other}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Does not log what opening and asking a model says, because the user did neither."""
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def check_items(settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the built-in texts as items of a request; the long text does not repeat itself."""
    texts = built_in_texts(settings)
    columns = {name: [_decoded(value, settings) for value in values] for name, values in texts.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def answers_of_python(
    predictor: Predictor, items: Iterable[Mapping[str, Any]], **options: Any
) -> list[dict[str, Any] | str]:
    """Returns the answer to each item as a dict of JSON, with its length as a server tells it, or the error, a str."""
    values = [tuple(item.values()) if len(item) > 1 else next(iter(item.values())) for item in items]
    found = []
    for value in values:
        try:
            [(answer, is_cut)] = predictor.pipe_with_cuts(iter([value]), **options)
            length = {"num_tokens": predictor.num_tokens(value), "is_cut": is_cut}
            found.append(json.loads(json.dumps(given_fields(answer), default=vars)) | length)
        except Mistake as error:
            found.append(str(error))
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
            found.append([{"tokens": tokens} for tokens, _ in read_tokens(predictor, predictor.settings["task"], item)])
        except Mistake as error:
            found.append(str(error))
    return found


def tokens_in_node(web: pathlib.Path, items: Iterable[Mapping[str, Any]]) -> list[list[dict[str, Any]] | str]:
    """Returns the same of a web folder."""
    results = run_in_node(web, [["tokens", "", item] for item in items])
    return [result["error"] if "error" in result else result["value"] for result in results]


def _places(sequences: Any) -> list[tuple]:
    return [tuple(token.values()) for sequence in sequences for token in sequence["tokens"]]


def run_in_node(web: pathlib.Path, calls: list[list[Any]]) -> list[dict[str, Any]]:
    """Calls functions of the backend of a web folder, each a list of a name and arguments.

    Returns a list of dicts with "value" or "error".
    """
    # Node reads a .js file as a module only if the package.json of a folder above has this type.
    settings = web.parent / "package.json"
    settings.write_text('{"type": "module"}')
    try:
        with tempfile.TemporaryDirectory() as folder:
            asked, answered = pathlib.Path(folder, "input.json"), pathlib.Path(folder, "output.json")
            asked.write_text(json.dumps(calls))
            program = pathlib.Path(__file__).with_suffix(".mjs")
            process = subprocess.run(["node", program, web, asked, answered], capture_output=True, check=False)
            if process.returncode:
                lines = process.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
                reason = next((line for line in lines if "Error" in line), lines[-1])
                raise Mistake("the web export does not run in Node: {}", reason)
            return json.loads(answered.read_text())
    finally:
        settings.unlink()


def difference_of(expected: dict[str, Any] | str, found: dict[str, Any] | str) -> float:
    """Returns the largest difference of two numbers in two answers.

    Raises a Mistake if numbers differ by more than the tolerance, or if anything else differs. Only guesses of almost
    the same probability may be in another order.
    """
    if isinstance(expected, str) or isinstance(found, str):
        if type(expected) is not type(found):
            told = f"JavaScript: {found}" if isinstance(found, str) else f"Python: {expected}"
            raise Mistake("only one of them has an error ({})", told)
        return 0.0
    first, second = _clear_parts(expected, expected), _clear_parts(found, expected)
    scale = max([1.0, *(abs(leaf) for leaf in _leaves(first).values() if isinstance(leaf, float))])
    leaves = _leaves(first), _leaves(second)
    if set(leaves[0]) != set(leaves[1]):
        raise Mistake("only one of them has {}", min(set(leaves[0]) ^ set(leaves[1])))
    pairs = [(leaves[0][place], leaves[1][place], place) for place in leaves[0]]
    return max(_difference(*pair, TOLERANCE * scale) for pair in pairs)


def _difference(expected: Any, found: Any, place: str, tolerance: float) -> float:
    if isinstance(expected, float) and isinstance(found, int | float):
        if abs(expected - found) <= tolerance:
            return abs(expected - found)
    elif expected == found:
        return 0.0
    raise Mistake("{} is {!r}, but {!r} in Python", place, found, expected)


def _clear_parts(answer: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Returns an answer without the guesses that rounding may put into another order, by their expected probability."""

    def clear(
        guesses: list[dict[str, Any]], reference: list[dict[str, Any]], key: str = "probability"
    ) -> list[dict[str, Any]]:
        ranks = [rank if _has_clear_rank(reference, rank, key) else None for rank in range(len(guesses))]
        return [guess if rank is not None else {key: guess[key]} for guess, rank in zip(guesses, ranks, strict=True)]

    if "n_best" in answer:
        unclear = () if _has_clear_rank(expected["n_best"], 0) else ("text", "start", "end")
        answer = {**answer, "n_best": clear(answer["n_best"], expected["n_best"])}
    elif "masks" in answer:
        unclear = () if all(_has_clear_rank(guesses, 0) for guesses in expected["masks"]) else ("best",)
        answer = {**answer, "masks": list(map(clear, answer["masks"], expected["masks"]))}
    elif isinstance(answer.get("texts"), list):
        return {**answer, "texts": clear(answer["texts"], expected["texts"], "score")}
    else:
        return answer
    return {name: value for name, value in answer.items() if name not in unclear}


def _has_clear_rank(guesses: list[dict[str, Any]], rank: int, key: str = "probability") -> bool:
    """Returns whether the number of a guess differs from those of its neighbours; the last probable one lacks one."""
    if rank >= len(guesses) - 1 and key == "probability":
        return len(guesses) == 1
    nearest = [guesses[other][key] for other in (rank - 1, rank + 1) if 0 <= other < len(guesses)]
    return all(abs(guesses[rank][key] - value) > 2 * TOLERANCE for value in nearest)


def _leaves(value: Any, place: str = "the answer") -> dict[str, Any]:
    """Returns the values in nested dicts and lists by their places."""
    if isinstance(value, dict):
        parts = {f"{place}.{name}": part for name, part in value.items()}
    elif isinstance(value, list | tuple):
        parts = {f"{place}[{number}]": part for number, part in enumerate(value)} | {f"len({place})": len(value)}
    else:
        return {place: value}
    return {name: leaf for name, part in parts.items() for name, leaf in _leaves(part, name).items()}


def _is_other(answer: dict[str, Any] | str, quantized: dict[str, Any] | str) -> bool:
    """Returns whether two answers of the same text differ in anything but numbers."""
    if isinstance(answer, str) or isinstance(quantized, str):
        return type(answer) is not type(quantized)
    pairs = [_clear_parts(each, answer) for each in (answer, quantized)]
    words = [{place: leaf for place, leaf in _leaves(each).items() if isinstance(leaf, str)} for each in pairs]
    return words[0] != words[1]


def _decoded(value: Any, settings: Mapping[str, Any]) -> Any:
    """Returns a text as str; the long text gets a number in each sentence, so that no two windows are equal."""
    if isinstance(value, np.ndarray):
        return [_decoded(part, settings) for part in value]
    sentences = value.decode("utf-8", errors="ignore").split(". ")
    if len(sentences) < settings["max_seq_length"]:
        return ". ".join(sentences)
    return ". ".join(f"{sentence} {number}" for number, sentence in enumerate(sentences))
