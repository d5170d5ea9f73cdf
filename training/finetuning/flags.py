"""The flags that all fine-tuning programs share. Flags of the original BERT keep their names."""

import math

from absl import flags

from bert_keras.cli.flags import define_device_flags


class NumbersParser(flags.ArgumentParser):
    """Parses numbers separated by commas into a tuple.

    Args:
        kind: int or float.
        lower_bound: number; the smallest valid value.
        is_open: bool; whether `lower_bound` itself is not valid.
    """

    syntactic_help = "numbers, separated by commas"

    def __init__(self, kind, lower_bound, is_open=False):
        super().__init__()
        self._kind = kind
        self._lower_bound = lower_bound
        self._is_open = is_open

    def parse(self, argument):
        """Returns a tuple of numbers from a str, or from a number or list of numbers in a run_config.json."""
        parts = argument.split(",") if isinstance(argument, str) else argument
        parts = parts if isinstance(parts, (list, tuple)) else [parts]
        numbers = tuple(self._number(part) for part in parts)
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"a number occurs twice: {argument}")
        return numbers

    def _number(self, part):
        try:
            number = self._kind(part)
        except ValueError:
            name = "a whole number" if self._kind is int else "a number"
            raise ValueError(f"{str(part).strip()!r} is not {name}") from None
        if not math.isfinite(number):
            raise ValueError(f"{number} is not a finite number")
        if not (number > self._lower_bound if self._is_open else number >= self._lower_bound):
            raise ValueError(f"{number} is not {'above' if self._is_open else 'at least'} {self._lower_bound}")
        return number

    def flag_type(self):
        """Returns the name of the type in --help."""
        return f"{self._kind.__name__}s"


class _NumbersSerializer(flags.ArgumentSerializer):
    def serialize(self, value):
        return ",".join(str(number) for number in value)


def define_fine_tuning_flags(flag_values, max_seq_length=128):
    """Defines the flags for the model, for training and for the run.

    Args:
        flag_values: the `absl.flags.FlagValues` to define them in.
        max_seq_length: int; the default of --max_seq_length.
    """
    define = {"flag_values": flag_values}
    flags.DEFINE_string("init_checkpoint", None, "The model to start from: its folder, or a checkpoint.", **define)
    flags.DEFINE_string("bert_config_file", None, "Its config; not given: the one in its folder.", **define)
    flags.DEFINE_string("vocab_file", None, "Its vocabulary; not given: the one in its folder.", **define)
    flags.DEFINE_bool("do_lower_case", None, "Lower-case texts; not given: as the model was trained.", **define)
    flags.DEFINE_string("output_dir", None, "Folder of the run.", **define)
    flags.DEFINE_integer(
        "max_seq_length", max_seq_length, "Tokens of a sequence, with [CLS] and [SEP].", lower_bound=4, **define
    )
    flags.DEFINE_bool("do_train", False, "Train.", **define)
    flags.DEFINE_bool("do_predict", False, "Write predictions.", **define)
    _define_numbers("train_batch_size", "32", int, 1, "Examples of an update; several are tried in turn.", flag_values)
    flags.DEFINE_integer("predict_batch_size", 8, "Sequences that are predicted together.", lower_bound=1, **define)
    _define_numbers(
        "learning_rate", "5e-5", float, 0, "The highest learning rate; several are tried.", flag_values, is_open=True
    )
    _define_numbers(
        "num_train_epochs", "3.0", float, 0, "Training epochs; several are tried.", flag_values, is_open=True
    )
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps with a rising learning rate.", 0.0, 1.0, **define)
    define_device_flags(flag_values)

    flags.DEFINE_integer("seed", 12345, "Seed of new weights, example order and dropout.", 0, 2**31 - 1, **define)
    flags.DEFINE_integer("num_seeds", 1, "Runs with seeds from --seed on; the best is kept.", lower_bound=1, **define)
    flags.DEFINE_integer("eval_steps", 0, "Steps between evaluations in training; 0: at the end.", 0, **define)
    flags.DEFINE_integer(
        "early_stopping", 0, "Evaluations without a better score after which training ends; 0: never.", 0, **define
    )
    flags.DEFINE_integer("log_steps", 10, "Steps between rows of metrics.csv.", lower_bound=1, **define)
    flags.DEFINE_integer(
        "gradient_accumulation_steps", 1, "Parts to split each batch into, to save memory.", lower_bound=1, **define
    )
    flags.DEFINE_bool("smooth_learning_rate", False, "Decay the learning rate from the end of the warm-up.", **define)
    flags.DEFINE_integer(
        "freeze_layers", None, "Freeze the embeddings and this many of the first layers.", lower_bound=0, **define
    )
    flags.DEFINE_float(
        "layer_decay", 1.0, "Factor of the learning rate from a layer to the one below.", 0.0, 1.0, **define
    )
    flags.DEFINE_bool(
        "new_head", False, "Start the head from random numbers, also if the checkpoint has one.", **define
    )
    flags.DEFINE_bool("deterministic", False, "Only use operations that give the same bits every time.", **define)
    flags.DEFINE_string("run_config", None, "A run_config.json; the other flags override it.", **define)


def define_packing_flag(flag_values):
    """Defines --pack, for tasks that can train on packed rows."""
    flags.DEFINE_bool("pack", False, "Train on rows that hold several examples each.", flag_values=flag_values)


def _define_numbers(name, default, kind, lower_bound, help_text, flag_values, is_open=False):
    flags.DEFINE(NumbersParser(kind, lower_bound, is_open), name, default, help_text, flag_values, _NumbersSerializer())
