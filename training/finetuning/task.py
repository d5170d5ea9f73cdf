"""The interface of a fine-tuning task; `training.finetuning.run` executes it."""

import types

import numpy as np


class FineTuning:
    """A fine-tuning task: its data, its network and its evaluation.

    The constructor of a subclass reads and checks all data, before a network exists.

    Attributes:
        program: str; the entry point.
        metric: str; the metric that compares checkpoints, settings and seeds. Higher is better.
        metric_names: tuple of str; all metrics of `evaluate`.
        baseline_name: str; what `baseline` predicts, for the log, such as "most frequent class".
        is_trimmed: bool; whether batches may be cut to their longest sequence.
        cannot_pack: str; the reason why examples cannot share a row; empty if they can.
        num_train_examples: int; the number of steps is computed from it.
        train_features, eval_features, predict_features: dict of arrays with the rows as first axis, complete after
            `prepare`: "input_ids" int32, "input_mask" and "segment_ids" int8, [N, T], the labels, and other features
            that the task needs; None without such data.
        files: dict of paths by flag name, such as "eval_file", if they differ from the flags.
        free_settings: tuple of str; the task's own flags that may differ when a run is resumed.
    """

    program = ""
    metric = ""
    metric_names = ()
    baseline_name = ""
    is_trimmed = True
    cannot_pack = ""
    num_train_examples = 0
    train_features = None
    eval_features = None
    predict_features = None
    files = types.MappingProxyType({})
    free_settings = ()

    def facts(self):
        """Returns a dict of JSON values that must not change when a run is resumed, such as digests of its data."""
        raise NotImplementedError

    def describe(self):
        """Returns a dict of JSON values for task.json: all that predictions need besides the model's other files."""
        raise NotImplementedError

    def prepare(self, folder):
        """Makes the features, or reads them from the run folder.

        Args:
            folder: str; the run folder.
        """
        raise NotImplementedError

    def make_task(self, config):
        """Builds the network and returns it as a task of `modeling.tasks`.

        Args:
            config: BertConfig.
        """
        raise NotImplementedError

    def is_trained(self, name):
        """Returns whether training changes the weight of this name."""
        return True

    def evaluate(self, outputs):
        """Computes the metrics.

        Args:
            outputs: dict of arrays; the network's outputs for the rows of `eval_features`.

        Returns:
            dict of float by name, none of them NaN.
        """
        raise NotImplementedError

    def results(self, metrics):
        """Returns the entries of eval_results.txt, a dict: the metrics under the original BERT's names."""
        return {f"eval_{name}": np.float32(value) for name, value in metrics.items()}

    def baseline(self):
        """Returns the metrics of a baseline, such as the most frequent class; a dict of float by name."""
        raise NotImplementedError

    def write_evaluation(self, run_dir, outputs):
        """Writes the reports of an evaluation into a `training.run_dir.RunDir`; see `evaluate` for `outputs`."""
        raise NotImplementedError

    def write_predictions(self, run_dir, outputs):
        """Writes the predictions for the rows of `predict_features` into a `training.run_dir.RunDir`."""
        raise NotImplementedError
