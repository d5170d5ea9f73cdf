"""What a task of fine-tuning brings into a run; the run itself is `training.finetuning.run`."""

import types

import numpy as np


class FineTuning:
    """What a task brings into a run: its data, its network and the judgement of the answers.

    A subclass reads and checks all of its data when it is made, before any network is.

    Attributes:
        program: str; the entry point.
        metric: str; the figure of `evaluate` by which checkpoints, settings and seeds are compared. More is better.
        metric_names: tuple of str; all figures of `evaluate`.
        is_trimmed: whether batches may be cut to their longest sequence.
        cannot_pack: str; why examples of the task cannot share a row; empty where they can.
        num_train_examples: int; what the number of steps is counted from.
        train_features, eval_features, predict_features: dict of arrays with the rows as first axis, made by `prepare`:
            "input_ids" int32, "input_mask" and "segment_ids" int8, [N, T], the labels, and whatever else the task
            itself needs; None where there is no such data.
        files: dict of paths by flag name, such as "eval_file", where they do not come from the flag of that name.
        free_settings: tuple of str; flags of the task itself that may differ when a run is resumed.
    """

    program = ""
    metric = ""
    metric_names = ()
    is_trimmed = True
    cannot_pack = ""
    num_train_examples = 0
    train_features = None
    eval_features = None
    predict_features = None
    files = types.MappingProxyType({})
    free_settings = ()

    def facts(self):
        """Returns a dict of JSON values: what must be the same for a run to be resumed, such as digests of its data."""
        raise NotImplementedError

    def describe(self):
        """Returns a dict of JSON values for task.json: all that is needed to use the model beside its other files."""
        raise NotImplementedError

    def prepare(self, folder):
        """Makes the features, or reads them where the folder has them.

        Args:
            folder: str; of the run.
        """
        raise NotImplementedError

    def make_task(self, config):
        """Builds the network and returns it as a task of `modeling.tasks`.

        Args:
            config: BertConfig.
        """
        raise NotImplementedError

    def is_trained(self, name):
        """Returns whether the weight of that name is trained."""
        return True

    def evaluate(self, outputs):
        """Judges the network's answers.

        Args:
            outputs: dict of arrays; what the network gives for the rows of `eval_features`.

        Returns:
            dict of float by name, none of them NaN.
        """
        raise NotImplementedError

    def results(self, metrics):
        """Returns the lines of eval_results.txt, a dict: the figures under the release's names."""
        return {f"eval_{name}": np.float32(value) for name, value in metrics.items()}

    def baseline(self):
        """Returns what `evaluate` would give for the one answer that knows nothing of the text, such as the most
        frequent class; a dict of float by name."""
        raise NotImplementedError

    def write_evaluation(self, run_dir, outputs):
        """Writes the reports of an evaluation into a `training.run_dir.RunDir`; the arguments are as of `evaluate`."""
        raise NotImplementedError

    def write_predictions(self, run_dir, outputs):
        """Writes the answers for the rows of `predict_features` into a `training.run_dir.RunDir`."""
        raise NotImplementedError
