#!/usr/bin/env python3
"""Runs an experiment of the paper in miniature, and reports its scores with intervals and verdicts.

    python studies/run_study.py masking --data_dir=data --scale=smoke
    python studies/run_study.py masking --data_dir=data --scale=night --variants='100 mask' --seeds=0,1
    python studies/run_study.py features --data_dir=data --model_dir=uncased_L-12_H-768_A-12 --scale=full
    python studies/run_study.py all --data_dir=data --scale=night --report

A study trains a small BERT for each variant and seed, and probes it. The folder --output_dir keeps every result, so an
interrupted study continues, and studies share what they have in common. The report has a table, a picture and a
verdict on each claim: reproduced, not reproduced or undecided. `all` runs all studies, one after the other.
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
from bert_keras.cli.flags import parse, run_main
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake

_ALL = "all"
NAMES = (
    *("continued", "electra", "features", "masking", "masks", "pretraining", "seeds", "size", "spans", "steps"),
    "tasks_of_pretraining",
)
_SCALE = (
    "smoke: minutes, to try it; night: hours; mini: hours for one model of BERT-Mini's shape; full: all data of the "
    "probes, for --model_dir."
)
_DATA = (
    "Folder with the data of the probes: blimp, zorro, conll2003, glue, mnli_small and squad. It also has the text, if "
    "you do not give --input_file."
)


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
    if len(names) != 1 or names[0] not in (*NAMES, _ALL):
        found = " ".join(names) or "nothing"
        raise Mistake("the study is {}, but one of these is needed: {}", found, ", ".join((*NAMES, _ALL)))
    for flag in ("variants", "probes", "model_dir"):
        if names == [_ALL] and values[flag].present:
            raise Mistake("--{} is for one study, but the study is {}; name one, or leave --{} out", flag, _ALL, flag)
    if values.scale == "full" and not values.model_dir:
        raise Mistake("--scale=full needs --model_dir: its rates are too low for a new small model; give night")
    open_console()
    start_tensorflow()
    from studies.catalog import STUDIES
    from studies.runner.running import check_probes, write_claims
    from studies.runner.study import SCALES

    studies = {
        name: dataclasses.replace(STUDIES[name], probes=_chosen(values.probes, STUDIES[name].probes, "probes"))
        for name in (NAMES if names == [_ALL] else names)
    }
    for study in studies.values():
        check_probes(study, values.data_dir)
    found = []
    for name, study in studies.items():
        command = _command([name if argument == _ALL else argument for argument in argv[1:]])
        run = run_at(values, name, study, SCALES[values.scale], command, needs_results=names != [_ALL])
        found.append((study, run.results()))
    if names == [_ALL]:
        write_claims(pathlib.Path(values.output_dir, values.scale), found, _command(argv[1:]))


def _command(arguments):
    """Returns the command that a report shows: the one that computes it."""
    flags_of_report = ("--report", "--report=true")
    return shlex.join(["python", "studies/run_study.py", *(one for one in arguments if one not in flags_of_report)])


def run_at(values, name, study, scale, command, needs_results=True):
    """Runs a study at a scale, given the flags, and returns its `Run`. `needs_results` is for --report."""
    from studies.runner.cells import Cells
    from studies.runner.corpus import Corpus, read_documents
    from studies.runner.running import Run, check_model_dir, check_seeds

    variants = _chosen(values.variants, tuple(study.variants), "variants")
    num_seeds = min(study.num_seeds, scale.num_seeds or study.num_seeds)
    seeds = [_number(seed) for seed in values.seeds] or list(range(num_seeds))
    check_seeds(seeds)
    scale = dataclasses.replace(scale, config={**scale.config, **study.config})
    folder = pathlib.Path(values.output_dir)
    cells, corpus = Cells(folder / "cells"), None
    if values.model_dir:
        check_model_dir(name, study)
    else:
        patterns = [
            pattern if values["input_file"].present else f"{values.data_dir}/{pattern}" for pattern in values.input_file
        ]
        corpus = Corpus(cells, read_documents(",".join(patterns)), scale.most_documents, scale.vocab_size)
    run = Run(name, study, scale, cells, corpus, values.data_dir, values.model_dir)
    of_model = f"-{pathlib.Path(values.model_dir).name}" if values.model_dir else ""
    reports = folder / values.scale / f"{name}{of_model}"
    if not values.report:
        run.run(variants, seeds, reports, command)
    elif needs_results or run.results():
        run.report(reports, command)
    return run


def _chosen(given, known, flag):
    """Returns the given names in the order of all; all if none is given."""
    if wrong := [name for name in given if name not in known]:
        raise Mistake('--{} has "{}", but the {} of this study are: {}', flag, wrong[0], flag, "; ".join(known))
    return tuple(name for name in known if name in given or not given)


def _number(text):
    if not text.isdecimal():
        raise Mistake('--seeds has "{}", which is not a whole number; give numbers such as 0,1,2', text)
    return int(text)


def run_program():
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
