"""The settings that several training programs share, as frozen dataclasses.

Flags of the original BERT keep their names and defaults. A program's own dataclass inherits its groups.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from bert_keras.mistakes import Message
from bert_keras.settings.choices import DEFAULT_LORA_TARGETS, LORA_TARGETS, SCHEDULES
from bert_keras.settings.devices import Computation, Devices
from bert_keras.settings.effects import ON
from bert_keras.settings.fields import REQUIRED, Settings, free, setting, setting_fields
from bert_keras.settings.model_files import ModelSettings
from bert_keras.settings.numbers import ListedParser, NumberParser, NumbersParser, SwitchParser

_SEVERAL = ". With several values, separated by commas, the program tries each and keeps the best."


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunSettings(Settings, Devices, Computation):
    """The settings of every training run.

    Fields that are not a `setting` are those that the training loop reads and each program declares.
    """

    title = "The run"

    output_dir: str = free("Required. Folder for the model, its checkpoints and the reports.", REQUIRED)
    run_config: str | None = setting(
        "A run_config.json of an earlier run, without its devices. Flags override it.", None, is_rare=True
    )
    do_train: bool = free("Train the model, or resume training.", False)
    seed: int = setting(
        "Seed of new weights, the order of examples, and dropout.", 12345, lower_bound=0, upper_bound=2**31 - 1
    )
    log_steps: int = free("Number of steps between rows of metrics.csv.", 10, lower_bound=1, is_rare=True)
    learning_rate_schedule: str = setting(
        "Learning rate after the warm-up. linear: it falls to 0 in a line, at first with the jump of the original "
        "BERT; smooth_linear: without the jump; cosine: along a cosine; constant: it stays.",
        "linear",
        choices=SCHEDULES,
    )
    weight_decay_rate: float = setting(
        "Weight decay of Adam; biases and layer norms have none.", 0.01, parser=NumberParser(0), is_rare=True
    )
    adam_beta_1: float = setting("Decay of Adam's mean of the gradients.", 0.9, parser=NumberParser(0, 1), is_rare=True)
    adam_beta_2: float = setting(
        "Decay of Adam's mean of the squared gradients.", 0.999, parser=NumberParser(0, 1), is_rare=True
    )
    adam_epsilon: float = setting(
        "Number that Adam adds to the root of its second mean.", 1e-6, parser=NumberParser(1e-30), is_rare=True
    )
    adam_bias_correction: bool = setting(
        "Divide Adam's means by what they lack in the first steps. The original BERT does not.", False, is_rare=True
    )
    clip_norm: float = setting(
        "Maximum norm of all gradients together, to which longer ones are cut. 0: any.",
        1.0,
        parser=NumberParser(0),
        is_rare=True,
    )
    ema_decay: float = setting(
        "Decay of an average of each weight over the steps, such as 0.999. Evaluation, checkpoints and the model use "
        "the averages. 0: no averages.",
        0.0,
        parser=NumberParser(0, 1),
        is_rare=True,
    )
    keep_checkpoint_max: int = free("Number of newest checkpoints to keep. 0: all.", 5, lower_bound=0, is_rare=True)
    deterministic: bool = setting(
        "Use only operations that give the same bits every time, even if they are slower. In Python, the whole process "
        "does so later.",
        False,
        is_rare=True,
    )
    init_checkpoint: str | None = None
    train_batch_size: int = 32
    learning_rate: float = 5e-5
    num_train_steps: int = 0
    num_warmup_steps: int = 0
    eval_steps: int = 0
    pack: Any = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningSettings(ModelSettings, RunSettings):
    """The settings of every fine-tuning run.

    `learning_rate`, `train_batch_size` and `num_train_epochs` are tuples, and numbers in the settings of one try.
    """

    title = "Fine-tuning"

    init_checkpoint: str | None = setting(
        "Model to start from: its folder, a checkpoint, or hf://owner/name. Without it, training starts from random "
        "weights and needs {bert_config_file} and {vocab_file}. Without {do_train}: the fine-tuned model, if "
        "{output_dir} has none.",
        None,
    )
    max_seq_length: int = setting("Maximum number of tokens in a sequence, with [CLS] and [SEP].", 128, lower_bound=4)
    do_predict: bool = free("Write predictions for {predict_file}, or the test data.", False)
    train_batch_size: Any = setting("Number of examples in one update" + _SEVERAL, (32,), parser=NumbersParser(int, 1))
    predict_batch_size: int = free("Number of sequences in a batch of prediction.", 8, lower_bound=1, is_rare=True)
    learning_rate: Any = setting(
        "Highest learning rate" + _SEVERAL, (5e-5,), parser=NumbersParser(float, 0, is_open=True)
    )
    num_train_epochs: Any = setting(
        "Number of training epochs" + _SEVERAL, (3.0,), parser=NumbersParser(float, 0, is_open=True)
    )
    warmup_proportion: float = setting(
        "Share of the steps in which the learning rate rises.", 0.1, lower_bound=0.0, upper_bound=1.0
    )
    num_seeds: int = free("Number of runs, with seeds from {seed} on. The best run is kept.", 1, lower_bound=1)
    max_steps: int = setting(
        "Number of training steps, instead of {num_train_epochs}. 0: as many as the epochs have.",
        0,
        lower_bound=0,
        is_rare=True,
    )
    eval_steps: int = free(
        "Number of steps between evaluations during training; the best weights are kept. 0: one evaluation at the end.",
        0,
        lower_bound=0,
    )
    early_stopping: int = free(
        "Patience: stop training after this number of evaluations without a better score. 0: never.",
        0,
        needs={"eval_steps": ON},
        lower_bound=0,
    )
    label_smoothing: float = setting(
        "Share of each training label that is spread evenly over all labels, such as 0.1. Evaluation does not smooth.",
        0.0,
        parser=NumberParser(0, 1),
        is_rare=True,
    )
    freeze_layers: int | None = setting(
        "Do not train the embeddings and this number of first layers. 0: only the embeddings.",
        None,
        lower_bound=0,
        is_rare=True,
    )
    layer_decay: float = setting(
        "Factor of the learning rate from a layer to the one below it.",
        1.0,
        harmless=1.0,
        lower_bound=0.0,
        upper_bound=1.0,
        is_rare=True,
    )
    lora_rank: int = setting(
        "Rank of LoRA, such as 8: train two small matrices for each kernel of {lora_targets}, the pooler and the head, "
        "and nothing else. It needs less memory and a higher learning rate. 0: train all weights.",
        0,
        lower_bound=0,
    )
    lora_alpha: float | None = setting(
        "Strength of LoRA: its product has the factor alpha / rank. If not given: the rank.",
        None,
        needs={"lora_rank": ON},
        lower_bound=0,
        is_rare=True,
    )
    lora_targets: str = setting(
        f"Kernels of each layer that LoRA adapts, separated by commas: {', '.join(LORA_TARGETS)}.",
        ",".join(DEFAULT_LORA_TARGETS),
        parser=ListedParser(),
        needs={"lora_rank": ON},
        is_rare=True,
    )
    new_head: bool = setting(
        "Start the head from random weights, even if the checkpoint has one.",
        False,
        needs={"init_checkpoint": ON},
        is_rare=True,
    )
    do_eval: bool = True  # a program without this setting evaluates if it has data for it

    def without_effect(self) -> Iterator[tuple[str, Message]]:
        yield from super().without_effect()
        if self.do_train and not self.do_eval:  # a later command that only predicts may repeat them
            for name in ("eval_steps", "metric"):
                yield name, Message("without {do_eval}; give both, or leave it out")

    def for_evaluation(self, eval_file: str | None = None) -> "FineTuningSettings":
        """Returns the settings with which the task reads its evaluation data again, or another file in the same way."""
        return dataclasses.replace(self, eval_file=eval_file) if eval_file else self

    def evaluation_data(self) -> str | None:
        """Returns the path of the evaluation data; "" if a name identifies them, None if there are none."""
        return getattr(self, "eval_file", None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeldOutSettings(FineTuningSettings):
    """The settings of programs that can evaluate on a part of the training data; see `tasks.tables.held_out`."""

    eval_share: float = setting(
        "Share of {train_file} to hold out for evaluation, such as 0.2.",
        0.0,
        unless={"task_name": ON, "tfds": ON, "eval_file": ON},
        needs={"train_file": ON},
        lower_bound=0.0,
        upper_bound=1.0,
    )

    @property
    def holds_out(self) -> bool:
        """True if the evaluation data are a part of `train_file`."""
        data: Any = self
        return bool(self.eval_share and data.train_file and not data.eval_file)

    def evaluation_data(self) -> str | None:
        data: Any = self
        return data.eval_file or (data.train_file if self.holds_out else None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluatedSettings(FineTuningSettings):
    """The settings of programs that evaluate on separate data and can pack rows."""

    do_eval: bool = free("Evaluate, after training if there is any.", False)
    eval_batch_size: int = free("Number of sequences in a batch of evaluation.", 8, lower_bound=1, is_rare=True)
    pack: Any = setting(
        "Train on rows that hold several examples each: less padding, more examples a second, other dropout masks. "
        "auto: if examples can share a row and rows then have a tenth fewer tokens or less.",
        "auto",
        parser=SwitchParser(),
        harmless=False,
        boolean=True,
    )


TAUGHT = {"do_train": True, "teacher": ON}
SOFT_LOSS = "Weight of the loss against the teacher's predictions. 0: none."


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistillationSettings:
    """The settings of the losses against a teacher; those that a program lacks are fields without a flag."""

    title = "The teacher"

    teacher: str | None = None
    temperature: float = setting(
        "Number that divides the logits of both models in the loss against the teacher's predictions.",
        2.0,
        parser=NumberParser(1e-3),
        needs=TAUGHT | {"soft_loss_weight": ON},
        is_rare=True,
    )
    label_loss_weight: float = 1.0
    soft_loss_weight: float = 1.0
    hidden_loss_weight: float = 0.0
    attention_loss_weight: float = 0.0
    cosine_loss_weight: float = 0.0
    teacher_layers: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TeacherSettings(DistillationSettings, FineTuningSettings):
    """The settings of fine-tuning programs that take a teacher."""

    teacher: str | None = free(
        "Model that teaches: a run of this program, or an export of one; or hf://owner/name.",
        None,
        needs={"do_train": True},
    )
    label_loss_weight: float = setting(
        "Weight of the task's own loss, which uses the labels. 0: learn from the teacher only.",
        0.5,
        parser=NumberParser(0),
        needs=TAUGHT,
        is_rare=True,
    )
    soft_loss_weight: float = setting(SOFT_LOSS, 0.5, parser=NumberParser(0), needs=TAUGHT, is_rare=True)
    hidden_loss_weight: float = setting(
        "Weight of the squared difference from the hidden states of {teacher_layers}. 0: none.",
        0.0,
        parser=NumberParser(0),
        needs=TAUGHT,
        is_rare=True,
    )
    attention_loss_weight: float = setting(
        "Weight of the divergence from the attention in {teacher_layers}. 0: none.",
        0.0,
        parser=NumberParser(0),
        needs=TAUGHT,
        is_rare=True,
    )
    teacher_layers: Any = setting(
        "For each layer of the student, the layer of the teacher that it imitates, such as 3,6; 0: none. If not given: "
        "evenly spaced layers with the last one.",
        None,
        parser=NumbersParser(int, 0, may_repeat=True),
        needs=TAUGHT,
        needs_any=("hidden_loss_weight", "attention_loss_weight"),
        is_rare=True,
    )

    def without_effect(self) -> Iterator[tuple[str, Message]]:
        yield from super().without_effect()
        if self.teacher and not self.label_loss_weight:
            for name in ("label_smoothing", "class_weights"):
                yield name, Message("with {label_loss_weight}=0; leave one of the two out")


def values_of(settings: RunSettings) -> dict[str, Any]:
    """Returns the values of the settings by name, as in run_config.json: without `run_config` itself."""
    return {
        field.name: getattr(settings, field.name) for field in setting_fields(settings) if field.name != "run_config"
    }


def free_settings(settings: RunSettings) -> set[str]:
    """Returns the names of the settings that may differ when a run resumes."""
    return {field.name for field in setting_fields(settings) if field.metadata["is_free"]}
