"""report.html: the page to look at first after an evaluation."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.cli.flags import programs_dir
from bert_keras.engine.report import in_words
from bert_keras.evaluation.html_report import Html, join, note, page, picture, table, tag
from bert_keras.evaluation.intervals import FEWEST_ROWS, NUM_SAMPLES
from bert_keras.mistakes import Message, flag_name
from bert_keras.runs.metrics_log import METRICS_FILE, draw_metric, metric_names_in, read_metrics
from bert_keras.runs.run_dir import REPORT_FILE, TRIES_DIR, TRIES_FILE, RunDir
from bert_keras.storage import paths
from bert_keras.tasks.reports.commands import command_line, commands_of_model


@dataclasses.dataclass(frozen=True)
class Findings:
    """The results of an evaluation that a task adds to the metrics of the page.

    Attributes:
        num_rows: the number of examples or queries.
        unit: their name, such as "examples".
        intervals: the bounds of metrics by name.
        texts, numbers: sections about single texts and about numbers, HTML by heading.
        baseline: what the baseline predicts.
        commands: what to do next, for this task: purposes, and the words of commands.
    """

    num_rows: int
    unit: str
    intervals: Mapping[str, Sequence[float]]
    texts: Mapping[str, Html]
    numbers: Mapping[str, Html] = dataclasses.field(default_factory=dict)
    baseline: str = ""
    commands: Sequence[tuple[str, Sequence[str]]] = ()


def write_page(
    run_dir: RunDir,
    model: str,
    task: Mapping[str, Any],
    described: Mapping[str, Any],
    findings: Findings,
    shortfall: Message | None = None,
) -> None:
    """Writes report.html.

    Args:
        run_dir: the run that was evaluated.
        model: the folder of the model.
        task: its task.json.
        described: evaluation.json.
        findings: what the task adds.
        shortfall: see `Task.shortfall`; the page says it in place of commands that use the model.
    """
    name = paths.name(run_dir.path.rstrip("/"))
    lead = f"Evaluation on {findings.num_rows:,} {findings.unit} ({described['data']['source']}), "
    lead += f"with the weights of step {described['step']:,}."
    warning = [note(shortfall.spelled(flag_name))] if shortfall else []
    commands = [*([] if shortfall else commands_of_model(model, name, task)), *findings.commands]
    sections = {
        "Metrics": join(*warning, _metrics(described, findings)),
        **findings.numbers,
        **_tries(run_dir),
        **_curves(run_dir),
        **findings.texts,
        "What to do next": join(
            *warning,
            *(
                tag("div", tag("p", purpose), tag("pre", command_line([os.path.join(programs_dir(), program), *words])))
                for purpose, (program, *words) in commands
            ),
        ),
    }
    # Paths are as a user in the current folder would write them, and tell less about the computer.
    run_dir.write_text(REPORT_FILE, page(name, lead, sections).replace(f"{os.getcwd()}{os.sep}", ""))


def _metrics(described: Mapping[str, Any], findings: Findings) -> Html:
    baseline = described["baseline"] or {}

    def formatted(name: str, value: float | None) -> str:
        return "" if value is None else in_words({name: value}).removeprefix(f"{name} ")

    rows = [
        [
            name,
            formatted(name, value),
            " to ".join(formatted(name, bound) for bound in findings.intervals.get(name, ())),
            *([formatted(name, baseline.get(name))] if baseline else []),
        ]
        for name, value in described["metrics"].items()
    ]
    header = ["", "value", "95 % interval", *(["baseline"] if baseline else [])]
    if findings.num_rows < FEWEST_ROWS:
        message = (
            f"With fewer than {FEWEST_ROWS} {findings.unit}, only means of values from 0 to 1 have intervals, Wilson's."
        )
    else:
        message = (
            f"The intervals are of {NUM_SAMPLES:,} bootstrap samples of the {findings.unit}; shares have Wilson's."
        )
    if baseline:
        message += f" The baseline is: {findings.baseline}."
    return join(table(header, rows), note(message))


def _curves(run_dir: RunDir) -> dict[str, Html]:
    """Returns the section of the learning curves; those of all tries are in the same pictures."""
    files = [run_dir.file(METRICS_FILE), *sorted(paths.glob(run_dir.file(f"{TRIES_DIR}/*/{METRICS_FILE}")))]
    runs = [rows for rows in map(read_metrics, files) if rows]
    pictures = []
    for name in dict.fromkeys(name for rows in runs for name in metric_names_in(rows)):

        def draw(axes: Any, name: str = name) -> None:
            for rows in runs:
                draw_metric(axes, rows, name)

        pictures.append(picture(draw))
    if not pictures:
        return {}
    message = "Over the steps. Blue: training, the mean since the last point. Orange: evaluation."
    return {"Learning curves": join(tag("div", *pictures, class_="pictures"), note(message))}


def _tries(run_dir: RunDir) -> dict[str, Html]:
    if not paths.is_file(run_dir.file(TRIES_FILE)):
        return {}
    header, *rows = [line.split("\t") for line in paths.read_text(run_dir.file(TRIES_FILE)).splitlines()]
    return {"Tries": table(header, rows)}
