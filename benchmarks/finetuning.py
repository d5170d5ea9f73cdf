"""Fine-tunes a pre-trained encoder on real datasets, and compares it with training from random weights.

    python benchmarks/finetuning.py --data_dir=data --init_checkpoint=minilm --work_dir=/tmp/finetuning

Each row is a command of the project's programs, run as a user would run it and printed under the table. For each
metric, the table shows the median and range over the seeds, the median of the same recipe from random weights, and the
baseline. To continue after an interruption, run the same command again: it skips runs that have a result. Prints a
table in Markdown, and writes it to `results.md` in the work folder.
"""

import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from absl import flags

from benchmarks.machine import describe_machine
from bert_keras.cli.flags import parse, require, run_main

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_STARTS = ("pretrained", "random")
_RECIPE = "--num_train_epochs=3 --learning_rate=5e-5 --train_batch_size=32 --precision=bfloat16"
_SEARCH = "--num_train_epochs=3 --learning_rate=5e-5,4e-5,3e-5,2e-5 --train_batch_size=16,32 --precision=bfloat16"


@dataclasses.dataclass(frozen=True)
class Row:
    """A task and its training; the command has {data} for the data folder.

    `num_seeds` is the number of seeds with pre-trained and with random weights.
    """

    name: str
    command: str
    figures: tuple
    num_seeds: tuple = (3, 1)


def _glue(name, folder, figures, num_seeds=(3, 1), recipe=_RECIPE, how=""):
    flags_ = f"--task_name={name} --data_dir={{data}}/glue/{folder} --do_train --do_eval --eval_batch_size=32"
    return Row(f"{folder}{how} (dev)", f"run_classifier.py {flags_} {recipe} --pack", figures, num_seeds)


_EVAL = "--do_train --do_eval --eval_batch_size=32"
ROWS = (
    _glue("mrpc", "MRPC", ("f1", "accuracy")),
    _glue("mrpc", "MRPC", ("f1", "accuracy"), (1, 0), _SEARCH, " by the paper's search"),
    _glue("rte", "RTE", ("accuracy",)),
    _glue("sts-b", "STS-B", ("spearman", "pearson")),
    _glue("cola", "CoLA", ("matthews", "accuracy")),
    Row(
        "BBC news (a fifth held out)",
        f"run_classifier.py --train_file={{data}}/bbc/bbc_news_train.csv --eval_share=0.2 --text_column=Text "
        f"--label_column=Category {_EVAL} {_RECIPE}",
        ("accuracy", "f1_macro"),
    ),
    Row(
        "CoNLL-2003 (test)",
        f"run_ner.py --train_file={{data}}/conll2003/train.txt --eval_file={{data}}/conll2003/test.txt {_EVAL} "
        f"--max_seq_length=96 {_RECIPE} --pack",
        ("f1", "precision", "recall"),
        (1, 1),
    ),
    Row(
        "SQuAD 2.0 (10 articles; dev: Normans)",
        "run_squad.py --version_2_with_negative --train_file={data}/squad/train_v2_10_articles.json "
        "--eval_file={data}/squad/dev_v2_normans.json --do_train --predict_batch_size=16 --max_seq_length=384 "
        "--num_train_epochs=3 --learning_rate=5e-5 --train_batch_size=16",
        ("best_f1", "best_exact", "HasAns_f1", "HasAns_exact"),
        (1, 1),
    ),
    # One epoch of its 67,349 examples takes six times as long as three epochs of MRPC.
    _glue("sst-2", "SST-2", ("accuracy",), (1, 1), f"{_RECIPE.replace('epochs=3', 'epochs=1')} --max_seq_length=64"),
)


def define_flags():
    """Returns the flags of this benchmark."""
    values = flags.FlagValues()
    flags.DEFINE_string("data_dir", None, "Folder with glue/, bbc/, conll2003/ and squad/.", flag_values=values)
    flags.DEFINE_string("init_checkpoint", None, "The pre-trained encoder, a folder.", flag_values=values)
    flags.DEFINE_string("work_dir", None, "Folder for the runs.", flag_values=values)
    flags.DEFINE_list("rows", [], "Rows to run, by the beginning of their names; none: all.", flag_values=values)
    return values


def main(argv):
    """Runs the benchmark."""
    values = define_flags()
    parse(values, argv, __doc__)
    require(values, ("data_dir", "init_checkpoint", "work_dir"))
    unknown = [name for name in values.rows if not any(row.name.startswith(name) for row in ROWS)]
    if unknown:
        raise ValueError(f"--rows={unknown[0]} does not begin any of {', '.join(row.name for row in ROWS)}")
    pathlib.Path(values.work_dir).mkdir(parents=True, exist_ok=True)
    rows = [row for row in ROWS if not values.rows or any(row.name.startswith(name) for name in values.rows)]
    # Run every task once before any task twice, so that errors show early.
    for seed in range(1, max(max(row.num_seeds) for row in rows) + 1):
        for number, start in enumerate(_STARTS):
            for row in rows:
                if seed <= row.num_seeds[number]:
                    run_once(row, start, seed, values)
    table = results_table(values.work_dir)
    pathlib.Path(values.work_dir, "results.md").write_text(table, encoding="utf-8")
    print(table)


def run_once(row, start, seed, values):
    """Runs a row's command from a start in `_STARTS` and with a seed, and stores the result, unless it exists."""
    folder = _folder(values.work_dir, row, start, seed)
    result_file = folder.with_suffix(".json")
    if result_file.exists():
        return
    arguments = shlex.split(row.command.format(data=values.data_dir))
    # These runs take minutes: repeating one is faster than writing its checkpoints.
    arguments += [f"--seed={seed}", f"--output_dir={folder}", "--save_checkpoints_steps=100000"]
    arguments += _start_flags(start, values.init_checkpoint)
    print("+ python", shlex.join(arguments), flush=True)
    started = time.monotonic()
    command = [sys.executable, str(_ROOT / arguments[0]), *arguments[1:]]
    subprocess.run(command, check=True, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"})
    seconds = time.monotonic() - started
    result = json.loads((folder / "evaluation.json").read_text(encoding="utf-8"))
    result_file.write_text(json.dumps({**result, "seconds": seconds}) + "\n", encoding="utf-8")
    shutil.rmtree(folder)


def results_table(work_dir):
    """Returns the Markdown table of all results so far, with the commands and the machine."""
    lines = ["| task | metric | median | range | seeds | random weights | baseline | minutes |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    commands = []
    for row in ROWS:
        pretrained, random = (_results(work_dir, row, start) for start in _STARTS)
        if not pretrained:
            continue
        # The fastest run, because other load on the machine only adds time.
        minutes = min(result["seconds"] for result in pretrained) / 60
        for number, figure in enumerate(row.figures):
            # Metrics keep their scale: official scores are in percent.
            values = sorted(result["metrics"][figure] for result in pretrained)
            cells = [row.name if number == 0 else "", figure, _shown(statistics.median(values))]
            cells += [f"{_shown(values[0])} to {_shown(values[-1])}" if len(values) > 1 else "", str(len(values))]
            cells += [_shown(statistics.median(r["metrics"][figure] for r in random)) if random else ""]
            cells += [_shown(pretrained[0]["baseline"].get(figure)), f"{minutes:.1f}" if number == 0 else ""]
            lines.append("| " + " | ".join(cells) + " |")
        commands.append(re.sub(r"\{data\}", "data", row.command))
    return "\n".join(
        [*lines, "", f"{describe_machine(('tensorflow', 'keras'))}.", "", *(f"    python {c}" for c in commands), ""]
    )


def _results(work_dir, row, start):
    files = sorted(pathlib.Path(work_dir).glob(f"{_slug(row)}-{start}-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _folder(work_dir, row, start, seed):
    return pathlib.Path(work_dir, f"{_slug(row)}-{start}-{seed}")


def _slug(row):
    return re.sub(r"\W+", "_", row.name.split("(")[0].strip().lower())


def _start_flags(start, init_checkpoint):
    if start == "pretrained":
        return [f"--init_checkpoint={init_checkpoint}"]
    files = pathlib.Path(init_checkpoint)
    return [f"--bert_config_file={files / 'config.json'}", f"--vocab_file={files / 'vocab.txt'}"]


def _shown(value):
    return "" if value is None else f"{value:.3f}" if abs(value) <= 1 else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
