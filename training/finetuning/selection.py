"""Selects the best checkpoint of a run, and decides when to stop early."""

from bert_keras.training.metrics_log import METRICS_FILE, read_metrics


class Selection:
    """Follows the evaluations of a run. A resumed run reads the earlier ones from metrics.csv.

    Args:
        run_dir: a `training.run_dir.RunDir`.
        metric: str; the metric to compare, higher is better.
        patience: int; training ends after this number of evaluations without improvement; 0: never.
        keep: function of the step and the metrics of an evaluation, called for each new best one.

    Attributes:
        is_whole: bool; whether training finished. The caller sets it.
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
        """Records an evaluation and returns whether training is over."""
        value = float(f"{metrics[self._metric]:.8g}")  # as in metrics.csv
        is_best = not self._values or value > max(self._values)
        self._values.append(value)
        if is_best:
            self._keep(step, metrics)
        return self.is_over

    @property
    def best(self):
        """The best value so far, a float; None before the first evaluation."""
        return max(self._values, default=None)

    @property
    def is_over(self):
        """True if patience has run out."""
        if not self._patience or not self._values:
            return False
        return len(self._values) - 1 - self._values.index(max(self._values)) >= self._patience


def _is_evaluation(row, metric):
    return row.get("split") == "eval" and bool(row.get(metric))
