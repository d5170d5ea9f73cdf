"""Which checkpoint of a run is the best, and whether it is time to stop."""

from bert_keras.training.metrics_log import METRICS_FILE, read_metrics


class Selection:
    """Follows the evaluations of a run. A run that is resumed knows those before from its metrics.csv.

    Args:
        run_dir: a `training.run_dir.RunDir`.
        metric: str; the figure that counts, more is better.
        patience: int; training is over after so many evaluations without a better figure; 0: never.
        keep: function of the step and the metrics of an evaluation, called when it is the best so far.

    Attributes:
        is_whole: whether training came to its end; set by whoever trains.
    """

    def __init__(self, run_dir, metric, patience, keep):
        self._metric = metric
        self._patience = patience
        self._keep = keep
        self.is_whole = False
        rows, step = read_metrics(run_dir.file(METRICS_FILE)), run_dir.latest_step()
        rows = [row for row in rows if _is_evaluation(row, metric) and int(row["step"]) <= step]
        self._values = [float(row[metric]) for row in rows]

    def __call__(self, step, metrics):
        """Takes in an evaluation and returns whether training is over."""
        value = float(f"{metrics[self._metric]:.8g}")  # as in metrics.csv
        is_best = not self._values or value > max(self._values)
        self._values.append(value)
        if is_best:
            self._keep(step, metrics)
        return self.is_over

    @property
    def best(self):
        """The best figure so far, a float; None before the first evaluation."""
        return max(self._values, default=None)

    @property
    def is_over(self):
        """Whether patience has run out."""
        if not self._patience or not self._values:
            return False
        return len(self._values) - 1 - self._values.index(max(self._values)) >= self._patience


def _is_evaluation(row, metric):
    return row.get("split") == "eval" and bool(row.get(metric))
