"""Chooses the best checkpoint of a run, and the best of several settings and seeds (paper, appendix A.3).

tries.tsv has one row for each try: each combination of settings with each seed. The combination with the best median
over its seeds on the evaluation data wins. The model of its best try becomes the model of the run.
"""

import dataclasses
import gc
import itertools
import logging
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from bert_keras.evaluation.tables import tab_separated
from bert_keras.mistakes import Mistake, NotFinite
from bert_keras.runs.run_dir import MODEL_DIR, TRIES_DIR, TRIES_FILE, RunDir
from bert_keras.runs.state import rounded
from bert_keras.settings.groups import FineTuningSettings
from bert_keras.tasks.finetuning.task import Task

log = logging.getLogger("bert_keras")

TRIED = ("learning_rate", "train_batch_size", "num_train_epochs")


class Selection:
    """Follows the evaluations of a run; state.json has those before it resumed.

    Args:
        metric: the metric to compare, higher is better.
        patience: training ends after this number of evaluations without improvement; 0: never.
        keep: function of the step and the metrics of an evaluation, called for each new best one.
    """

    def __init__(
        self, run_dir: RunDir, metric: str, patience: int, keep: Callable[[int, dict[str, float]], None]
    ) -> None:
        self._metric = metric
        self._patience = patience
        self._keep = keep
        found, last_step = run_dir.state.evaluations(), run_dir.latest_step()
        self._values = {
            step: values[metric] for step, values in found.items() if step <= last_step and metric in values
        }

    def __call__(self, step: int, metrics: dict[str, float]) -> bool:
        """Records an evaluation and returns whether training is over."""
        value = rounded(metrics[self._metric])
        is_best = self.best is None or value > self.best
        self._values[step] = value
        if is_best:
            self._keep(step, metrics)
        return self.is_over

    @property
    def best(self) -> float | None:
        """The best value so far; None before the first evaluation."""
        return max(self._values.values(), default=None)

    @property
    def best_step(self) -> int | None:
        """The first step with the best value; None before the first evaluation."""
        return max(self._values, key=lambda step: self._values[step], default=None)

    @property
    def is_over(self) -> bool:
        """True if patience has run out."""
        num_waited = sum(step > (self.best_step or 0) for step in self._values)
        return 0 < self._patience <= num_waited


@dataclasses.dataclass(frozen=True)
class _Result:
    """The result of a try. If it failed, `value` is None and `status` is the error message."""

    settings: dict[str, Any]
    value: float | None
    status: str


def list_tries(settings: FineTuningSettings) -> list[dict[str, Any]]:
    """Returns for each try one value of each setting of the program that may have several, and a seed."""
    names = [name for name in TRIED if isinstance(getattr(settings, name), tuple)]
    seeds = range(settings.seed, settings.seed + settings.num_seeds)
    combinations = itertools.product(*(getattr(settings, name) for name in names), seeds)
    return [dict(zip((*names, "seed"), combination, strict=True)) for combination in combinations]


def try_all(
    tries: list[dict[str, Any]],
    settings: FineTuningSettings,
    run_dir: RunDir,
    task: Task,
    train: Callable[[FineTuningSettings, RunDir], Any],
) -> bool:
    """Trains every try that has no result yet, and copies the best model into the run folder.

    `train` is `FineTuning.train`. Returns False after SIGTERM.
    """
    # No try is below it if this metric has none. It has as many digits as the scores of the tries.
    baseline = rounded(task.baseline.get(task.metric, -math.inf))
    varied = [name for name in (*TRIED, "seed") if len({one[name] for one in tries}) > 1]
    results = []
    # The table marks the folder as one of tries, whose settings must not change. So it precedes the first try.
    run_dir.write_text(TRIES_FILE, _table(results, varied, task.metric, baseline))
    for number, one in enumerate(tries, 1):
        try_dir = _try_dir(run_dir, one)
        if stored := try_dir.state["result"]:
            result = _Result(one, **stored)
        else:
            log.info("try %d of %d: %s", number, len(tries), ", ".join(f"{name}={one[name]}" for name in varied))
            result = _one_try(one, dataclasses.replace(settings, **one), try_dir, train)
            # Reference cycles in Keras and TensorFlow keep the weights of a finished try; a GPU has no room for two.
            gc.collect()
            if result is None:
                return False
        # Free most of the disk space: checkpoints are only needed to resume. The best model stays.
        try_dir.forget_checkpoints()
        results.append(result)
        _forget_all_but_best(results, run_dir)
        run_dir.write_text(TRIES_FILE, _table(results, varied, task.metric, baseline))
    best = _choose(results, varied, task.metric, baseline)
    if best.value is None:
        raise Mistake("all {} tries failed, see {}; {}", len(tries), run_dir.file(TRIES_FILE), best.status)
    log.info("chosen: %s", ", ".join(f"{name}={best.settings[name]}" for name in varied))
    # An earlier model stays until the copy is complete.
    run_dir.replace_dir(MODEL_DIR, _try_dir(run_dir, best.settings).file(MODEL_DIR))
    return True


def _one_try(
    one: dict[str, Any],
    settings: FineTuningSettings,
    run_dir: RunDir,
    train: Callable[[FineTuningSettings, RunDir], Any],
) -> _Result | None:
    """Trains one try; returns None after a request to stop."""
    run_dir.create()
    try:
        trained = train(settings, run_dir)
    except NotFinite as error:
        result = _Result(one, None, str(error))
        log.warning("this try failed: %s", error)
    else:
        if trained is None:
            return None
        result = _Result(one, trained.best, "done")
    run_dir.state["result"] = {"value": result.value, "status": result.status}
    return result


def _try_dir(run_dir: RunDir, one: dict[str, Any]) -> RunDir:
    """Returns the folder of a try. Its name has all settings that may differ, so commands do not mix their tries."""
    name = ",".join(f"{setting}={one[setting]}" for setting in (*TRIED, "seed"))
    return run_dir.within(f"{TRIES_DIR}/{name}")


def _by_combination(results: Sequence[_Result]) -> list[list[_Result]]:
    """Returns lists of results that differ only in their seed."""
    groups = {}
    for result in results:
        groups.setdefault(tuple(result.settings[name] for name in TRIED), []).append(result)
    return list(groups.values())


def _rank(result: _Result) -> float:
    return -math.inf if result.value is None else result.value


def _median(group: Sequence[_Result]) -> float:
    return statistics.median(map(_rank, group))


def _forget_all_but_best(results: Sequence[_Result], run_dir: RunDir) -> None:
    """Removes models that cannot win: in each combination, all but the best seed."""
    for group in _by_combination(results):
        best = max(group, key=_rank)
        for result in group:
            if result is not best:
                _try_dir(run_dir, result.settings).remove_dir(MODEL_DIR)


def _choose(results: Sequence[_Result], varied: Sequence[str], metric: str, baseline: float) -> _Result:
    """Logs the results of each combination, and returns the best try of the best one."""
    groups = sorted(_by_combination(results), key=lambda group: (_median(group), max(map(_rank, group))), reverse=True)
    for group in groups:
        values = sorted(map(_rank, group))
        num_failed = sum(value <= baseline for value in values)
        name = ", ".join(f"{setting}={group[0].settings[setting]}" for setting in varied if setting != "seed")
        log.info(
            "%smedian %s %.4g of %d seeds, from %.4g to %.4g%s",
            f"{name}: " if name else "",
            metric,
            _median(group),
            len(group),
            values[0],
            values[-1],
            "" if baseline == -math.inf else f"; {num_failed} failed, not above the baseline {baseline:.4g}",
        )
    return max(groups[0], key=_rank)


def _table(results: Sequence[_Result], varied: Sequence[str], metric: str, baseline: float) -> str:
    rows = []
    for result in results:
        is_failed = result.value is not None and result.value <= baseline
        status = f"failed: not above the baseline {baseline:.6g}" if is_failed else result.status
        value = "" if result.value is None else f"{result.value:.6g}"
        rows.append([*(result.settings[name] for name in varied), value, status])
    return tab_separated([*varied, metric, "status"], rows)
