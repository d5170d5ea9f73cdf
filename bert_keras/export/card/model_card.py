"""The model card: the README.md of an export, with purpose, usage, data, metrics and limits of the model."""

import collections
import os
import statistics
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.export.card.usage_examples import how_to_call
from bert_keras.export.source import Source
from bert_keras.mistakes import several
from bert_keras.storage.hub import SCHEME
from bert_keras.tasks import ability_of

_SETTINGS = (
    "init_checkpoint",
    "max_seq_length",
    "doc_stride",
    "learning_rate",
    "train_batch_size",
    "num_train_epochs",
    "warmup_proportion",
    "layer_decay",
    "freeze_layers",
    "seed",
    "num_seeds",
)


def model_card(source: Source, written: Mapping[str, Any], answer: Mapping[str, np.ndarray]) -> str:
    """Returns the README.md of an export of a Source.

    written is the content of export.json, and answer the SavedModel's answer to `example_texts`, a dict of arrays
    [1, ...]; empty without a SavedModel.
    """
    places = {name: entry["path"] for name, entry in written["formats"].items()}
    run = source.run or {"settings": {}, "facts": {}, "evaluation": None, "tries": None}
    sections = [
        *_purpose(source, places),
        how_to_call(source.settings, places, answer, source.network, source.predictor.files.preparation),
        *_data(run),
        *_metrics(source, run, written["costs"]),
        *_limits(source),
        *_making(source, written["versions"]),
    ]
    return "\n\n".join(sections) + "\n"


def spread(tries: str) -> str | None:
    """Describes the spread over seeds for the best settings in the text of a tries.tsv, those with the best median.

    The result is None if the best settings have fewer than two seeds.
    """
    header, *rows = (line.split("\t") for line in tries.splitlines())
    groups = collections.defaultdict(list)
    for *values, metric, _ in rows:
        settings = tuple(f"{name}={value}" for name, value in zip(header, values, strict=False) if name != "seed")
        groups[settings].append(float(metric) if metric else float("-inf"))
    by_median = sorted(groups.items(), key=lambda group: (statistics.median(group[1]), max(group[1])))
    settings, metrics = by_median[-1] if by_median else ((), [])
    if len(metrics) < 2:
        return None
    seeds = f"{len(metrics)} seeds{' with ' if settings else ''}{', '.join(settings)}"
    return (
        f"Median {header[-2]} of {seeds}: {statistics.median(metrics):.4g}, from {min(metrics):.4g} to "
        f"{max(metrics):.4g}; this model is the best of them."
    )


def _purpose(source: Source, places: Mapping[str, str]) -> Iterator[str]:
    settings, config = source.settings, source.predictor.config
    labels = settings.get("labels") or []
    texts = "a pair of texts" if settings.get("is_pair") else "a text"
    layers = several(config.num_hidden_layers, "layers")
    yield f"# {source.name}"
    yield (
        f"A BERT that {ability_of(settings['task']).purpose.format(texts=texts, num_labels=len(labels))}: "
        f"{layers} of width {config.hidden_size}, {config.num_attention_heads} heads, a "
        f"vocabulary of {config.vocab_size:,} tokens. Exported by `export_model.py` of bert-keras."
    )
    if labels:
        yield f"Labels: {', '.join(labels)}."
    formats = ", ".join(f"`{path}` ({name})" for name, path in places.items())
    yield f"In this folder: {formats}; `export.json` has their comparison with the model."


def _data(run: Mapping[str, Any]) -> Iterator[str]:
    settings, facts = run["settings"], run["facts"]
    share = settings.get("eval_share")
    details = [settings[name] for name in ("task_name", "tfds") if settings.get(name)]
    if settings.get("data_dir"):
        details.append(f"folder `{os.path.basename(settings['data_dir'])}`")
    for name, use in (("train_file", "trained on"), ("eval_file", "evaluated on"), ("predict_file", "predicted")):
        if settings.get(name):
            part = f" (a share of {share:g} held out)" if name == "train_file" and share else ""
            details.append(f"{use} `{os.path.basename(settings[name])}`{part}")
    for name, key, use in (("data", "training_examples", "train on"), ("evaluation", "examples", "evaluate on")):
        if number := (facts.get(name) or {}).get(key):
            details.append(f"{number:,} examples to {use}")
    if details:
        yield f"## Data\n\n{', '.join(details)}."


def _metrics(source: Source, run: Mapping[str, Any], costs: Sequence[str]) -> Iterator[str]:
    evaluation = run["evaluation"] or {"metrics": source.settings.get("metrics"), "baseline": {}}
    if evaluation["metrics"] or costs:
        yield "## Metrics"
    if evaluation["metrics"]:
        table = ["| metric | this model | baseline |", "| --- | ---: | ---: |"]
        for name, value in evaluation["metrics"].items():
            known = evaluation["baseline"].get(name)
            table.append(f"| {name} | {value:.4g} | {'' if known is None else f'{known:.4g}'} |")
        yield "\n".join(table)
        yield (run["tries"] and spread(run["tries"])) or "One seed; other seeds give other numbers."
    if costs:
        yield "Quantization, timed on the exporting machine:\n\n" + "\n".join(f"- {line}" for line in costs)


def _limits(source: Source) -> Iterator[str]:
    is_lower_cased = source.predictor.files.preparation.do_lower_case
    case = "is lower-cased" if is_lower_cased else "keeps its capital letters"
    longest = source.settings["max_seq_length"]
    yield (
        "## Limits\n\n"
        f"- The model reads at most {longest} tokens, [CLS] and [SEP] included; the SavedModel cuts off the rest and "
        "sets `is_cut`.\n"
        f"- Text {case}. The letters of the vocabulary are {_scripts(source.predictor.tokenizer.vocab)}; the model "
        "is hardly trained on others.\n"
        "- The model reflects its training data, with their gaps; on other data its metrics differ."
    )


def _making(source: Source, versions: Mapping[str, str]) -> Iterator[str]:
    yield "## How it was made"
    if source.run:
        settings = {name: source.run["settings"].get(name) for name in _SETTINGS}
        start = settings["init_checkpoint"]
        if start and not start.startswith(SCHEME):
            settings["init_checkpoint"] = os.path.basename(os.path.normpath(start))
        named_values = [f"{name} {_listed(value)}" for name, value in settings.items() if value is not None]
        yield f"`{source.run['program']}.py`, step {source.settings['step']}: {', '.join(named_values)}."
    yield ", ".join(f"{name} {version}" for name, version in versions.items()) + "."


def _scripts(vocab: Iterable[str]) -> str:
    """Lists the scripts of the tokens' first letters that have a share of at least 1 %."""
    counts = collections.Counter()
    for token in vocab:
        first = token.removeprefix("##")[:1]
        if first.isalpha():
            counts[unicodedata.name(first, "unknown").split()[0].title()] += 1
    total = sum(counts.values())
    shares = [
        f"{name} ({100 * number / total:.0f} %)" for name, number in counts.most_common() if 100 * number >= total
    ]
    return ", ".join(shares) or "none"


def _listed(value: Any) -> Any:
    return " or ".join(map(str, value)) if isinstance(value, list | tuple) else value
