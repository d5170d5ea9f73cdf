"""Files with the metrics of a run: metrics.csv, TensorBoard events and a picture of the learning curves."""

import csv
import importlib.util
import io
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from bert_keras.runs.run_dir import CURVES_FILE, RunDir
from bert_keras.storage import paths

if TYPE_CHECKING:
    from matplotlib.axes import Axes

log = logging.getLogger("bert_keras")

METRICS_FILE = "metrics.csv"
# Object stores cannot append to a file. Writing the whole file after every row would be slow.
_SECONDS_BETWEEN_COPIES = 60.0


class MetricsFile:
    """metrics.csv: a row for every `--log_steps` steps (averages over them) and for every evaluation.

    Existing rows of steps after `start_step` are dropped, because these steps run again. So are evaluations that
    state.json does not have.
    """

    def __init__(self, run_dir: RunDir, metric_names: Iterable[str], start_step: int) -> None:
        columns = ["step", "split", "learning_rate", "loss", *metric_names, "gradient_norm", "examples_per_second"]
        self._columns = list(dict.fromkeys(columns))
        self._run_dir = run_dir
        path = run_dir.file(METRICS_FILE)
        evaluated = run_dir.state.evaluations()
        kept = [row for row in read_metrics(path) if None not in row.values()]  # without one that a kill cut short
        kept = [row for row in kept if int(row["step"]) <= start_step]
        kept = [row for row in kept if row["split"] != "eval" or int(row["step"]) in evaluated]
        lines = [",".join(self._columns)]
        lines += [",".join(row.get(column) or "" for column in self._columns) for row in kept]
        text = "\n".join(lines) + "\n"
        run_dir.write_text(METRICS_FILE, text)
        self._is_copied = paths.is_remote(path)
        if self._is_copied:
            self._file: Any = io.StringIO()
            self._file.write(text)
        else:
            self._file = open(path, "a", encoding="utf-8", newline="", buffering=1)  # noqa: SIM115 - see close()
        self._last_copy = time.monotonic()
        self._writer = csv.DictWriter(self._file, self._columns, lineterminator="\n")

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        """Appends a row. Metrics that are not in `values` stay empty; values without a column are dropped."""
        columns = {name: f"{value:.8g}" for name, value in values.items() if name in self._columns}
        self._writer.writerow({"step": step, "split": split, **columns})
        # A resumed run counts on the rows of its evaluations.
        if self._is_copied and (split == "eval" or time.monotonic() - self._last_copy > _SECONDS_BETWEEN_COPIES):
            self._copy()

    def close(self) -> None:
        if self._is_copied:
            self._copy()
        self._file.close()

    def _copy(self) -> None:
        self._run_dir.write_text(METRICS_FILE, self._file.getvalue())
        self._last_copy = time.monotonic()


class TensorBoardEvents:
    """The same metrics as scalars for TensorBoard: training in the run folder, evaluation in its subfolder `eval`."""

    def __init__(self, run_dir: RunDir) -> None:
        self._writers = {
            "train": tf.summary.create_file_writer(run_dir.path),
            "eval": tf.summary.create_file_writer(run_dir.file("eval")),
        }

    @staticmethod
    def is_available() -> bool:
        """Returns whether the package tensorboard is installed, which TensorFlow needs to write scalars."""
        return importlib.util.find_spec("tensorboard") is not None

    def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        with self._writers[split].as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def read_metrics(path: str) -> list[dict[str, Any]]:
    """Returns the rows of a metrics.csv as texts by column; none if the file does not exist."""
    try:
        with paths.open_file(path, "r", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        return []


def metric_names_in(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns the metrics that rows of metrics.csv have, those of the optimizer last."""
    names = [name for name in rows[0] if name not in ("step", "split", "examples_per_second")] if rows else []
    names = [name for name in names if any(row[name] for row in rows)]
    return sorted(names, key=("learning_rate", "gradient_norm").count)


def draw_metric(axes: "Axes", rows: Iterable[Mapping[str, str]], name: str) -> None:
    """Plots a metric of metrics.csv over the steps."""
    for split, style, colour in (("train", "-", "#2563eb"), ("eval", "o-", "#ea580c")):
        points = [(int(row["step"]), float(row[name])) for row in rows if row["split"] == split and row.get(name)]
        if points:
            axes.plot(*zip(*points, strict=True), style, color=colour, label=split, markersize=4, linewidth=1.4)
    axes.set_title(name.replace("_", " "), fontsize=11, loc="left")
    axes.locator_params("x", integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def draw_learning_curves(run_dir: RunDir) -> None:
    """Plots every metric of metrics.csv over the steps in learning_curves.png."""
    if not run_dir.is_writable:
        return
    from matplotlib.figure import Figure

    rows = read_metrics(run_dir.file(METRICS_FILE))
    names = metric_names_in(rows)
    num_plot_rows = (len(names) + 1) // 2
    figure = Figure(figsize=(6.4, 0.5 + 1.9 * num_plot_rows), layout="constrained")
    for place, name in enumerate(names, 1):
        draw_metric(figure.add_subplot(num_plot_rows, 2, place), rows, name)
    figure.supxlabel("step", fontsize=10)
    lines = {str(line.get_label()): line for axes in figure.axes for line in axes.get_lines()}
    if lines:
        figure.legend(lines.values(), lines, loc="outside upper right", ncols=2, frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, dpi=200, format="png")
    run_dir.write_text(CURVES_FILE, picture.getvalue())
