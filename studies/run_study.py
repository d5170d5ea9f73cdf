#!/usr/bin/env python3
"""Runs an experiment of the paper in miniature, and reports its scores with intervals and verdicts.

    python studies/run_study.py spans --data_dir=data --scale=smoke
    python studies/run_study.py spans --data_dir=data --scale=night --variants='whole words' --seeds=0,1
    python studies/run_study.py features --data_dir=data --model_dir=uncased_L-12_H-768_A-12 --scale=full
    python studies/run_study.py spans --data_dir=data --scale=night --report

A study trains a small BERT for each variant and seed, and probes it. The folder --output_dir keeps every result, so an
interrupted study continues, and studies share what they have in common. The report has a table, a picture and a
verdict on each claim: reproduced, not reproduced or undecided.
docs/guides/studies.md describes the studies and the data.
"""

import dataclasses
import pathlib
import shlex
import sys
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import MissingFile, Mistake
from studies.runner.catalog import STUDIES
from studies.runner.study import SCALES

_SCALE = (
    "smoke: minutes, to try it; night: hours; mini: hours for one model of BERT-Mini's shape; full: all data of the "
    "probes, for --model_dir."
)
_DATA = (
    "Folder with the data of the probes: blimp, zorro, conll2003, glue, mnli_small and squad. It also has the text, if "
    "you do not give --input_file."
)


# A report shows the command that computes all of it, without the flags that choose a part.
_PART_FLAGS = ("--report", "--variants=", "--seeds=")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_enum("scale", "smoke", ("smoke", "night", "mini", "full"), _SCALE, **define)
    flags.DEFINE_string("data_dir", "data", _DATA, **define)
    flags.DEFINE_list("input_file", ["corpus/*.txt", "corpus_large/*.txt"], "Text to pre-train on.", **define)
    flags.DEFINE_string("model_dir", None, "A model to take instead of a new one: features, seeds.", **define)
    flags.DEFINE_string("output_dir", "study_runs", "Folder for models, results and reports.", **define)
    flags.DEFINE_list("variants", [], "Rows to run. If not given: all.", **define)
    flags.DEFINE_list("probes", [], "Columns to run. If not given: all.", **define)
    flags.DEFINE_list("seeds", [], "Seeds, such as 0,1. If not given: as many as the study has.", **define)
    flags.DEFINE_bool("report", False, "Only write the report of the results that exist.", **define)
    return values


def main(argv):
    """Runs the program; `argv` is a list of str: the program's name, the name of a study, and the flags."""
    values = define_flags()
    names = parse(values, argv, __doc__, takes_texts=True)
    if len(names) != 1 or names[0] not in STUDIES:
        raise Mistake(
            "the study is {}, but one of these is needed: {}", " ".join(names) or "nothing", ", ".join(STUDIES)
        )
    [name] = names
    study = STUDIES[name]
    study = dataclasses.replace(study, probes=_chosen(values.probes, study.probes, "probes"))
    if study.has_one_model and not values.model_dir:
        raise Mistake("{} needs --model_dir: the folder of a model that is trained", name)
    if values.model_dir and not study.has_one_model:
        raise Mistake("--model_dir is for one model, but {} trains several; leave it out", name)
    if values.scale == "full" and not values.model_dir:
        raise Mistake("--scale=full is for a model that is trained, but {} trains small ones; give night", name)
    if values.model_dir and not pathlib.Path(values.model_dir).is_dir():
        raise MissingFile("--model_dir={} is not a folder on this machine; give one, or download it", values.model_dir)
    for flag, unless in (("input_file", "model_dir"), ("variants", "report"), ("seeds", "report")):
        if values[flag].present and getattr(values, unless):
            raise Mistake("--{} has no effect with --{}; leave one of the two out", flag, unless)
    open_console()
    start_tensorflow()
    from studies.runner.running import check_probes

    check_probes(study, values.data_dir)
    command = shlex.join(
        ["python", "studies/run_study.py", *(one for one in argv[1:] if not one.startswith(_PART_FLAGS))]
    )
    run_at(values, name, study, SCALES[values.scale], command)


def run_at(values, name, study, scale, command):
    """Runs a study at a scale, given the flags."""
    from studies.runner.cells import Cells
    from studies.runner.corpus import Corpus, read_documents
    from studies.runner.running import Run, check_seeds

    variants = _chosen(values.variants, tuple(study.variants), "variants")
    num_seeds = min(study.num_seeds, scale.num_seeds or study.num_seeds)
    seeds = [_number(seed) for seed in values.seeds] or list(range(num_seeds))
    check_seeds(seeds)
    folder = pathlib.Path(values.output_dir)
    cells, corpus = Cells(folder / "cells"), None
    if not values.model_dir:
        patterns = [
            pattern if values["input_file"].present else f"{values.data_dir}/{pattern}" for pattern in values.input_file
        ]
        corpus = Corpus(cells, read_documents(",".join(patterns)), scale.most_documents, scale.vocab_size)
    run = Run(name, study, scale, cells, corpus, values.data_dir, values.model_dir)
    model_suffix = f"-{pathlib.Path(values.model_dir).name}" if values.model_dir else ""
    reports = folder / values.scale / f"{name}{model_suffix}"
    if values.report:
        run.report(reports, command)
    else:
        run.run(variants, seeds, reports, command)


def _chosen(given, known, flag):
    """Returns the given names in the order of all; all if none is given."""
    if wrong := [name for name in given if name not in known]:
        raise Mistake('--{} has "{}", but the {} of this study are: {}', flag, wrong[0], flag, "; ".join(known))
    return tuple(name for name in known if name in given or not given)


def _number(text):
    if not text.isdecimal():
        raise Mistake('--seeds has "{}", which is not a whole number; give numbers such as 0,1,2', text)
    return int(text)


if __name__ == "__main__":
    as_program(main)
