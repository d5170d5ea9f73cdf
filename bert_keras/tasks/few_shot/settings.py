"""The settings of few-shot classification, and those of a classifier that reads the same data."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from bert_keras.mistakes import Message, Mistake, Setting, check_names
from bert_keras.settings.choices import DEFAULT_LORA_TARGETS
from bert_keras.settings.effects import ON
from bert_keras.settings.fields import free, setting, setting_fields
from bert_keras.settings.groups import EvaluatedSettings, HeldOutSettings
from bert_keras.settings.numbers import NumberParser
from bert_keras.tasks.classification.settings import ClassifierSettings, LabelledTextSettings
from bert_keras.tasks.tables.settings import ColumnSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class FewShotSettings(EvaluatedSettings, HeldOutSettings, ColumnSettings, LabelledTextSettings):
    """The settings of run_few_shot.py.

    Fields that are not a `setting` are those that the code of all runs reads. No user can set them.
    """

    title = "Few labels"
    usage = """
    Makes a classifier from a few texts of each class, or from the names of the classes, evaluates it and predicts.

        python run_few_shot.py --do_train --do_eval --train_file=labelled.csv --eval_file=test.csv \\
            --init_checkpoint=minilm --output_dir=first

    The encoder first learns to give the texts of a class similar vectors; then a logistic regression on the vectors
    becomes the head. The best encoders for it are those for vectors of sentences. Without --do_train, the program uses
    the model in --output_dir.
    """

    class_names: Sequence[str] = setting(
        "Names of all classes, separated by commas. Each name is another example of its class, with blanks for "
        "underscores; then {train_file} may be missing.",
        (),
    )
    contrastive_epochs: int = setting(
        "Epochs in which the encoder learns to give the texts of a class similar vectors, before the head is fitted; 0 "
        "leaves it as it is.",
        10,
        lower_bound=0,
    )
    metric: str | None = free(
        "Metric that is compared with the baseline: accuracy, f1 (of the second of two labels), f1_macro or matthews. "
        "If not given: accuracy.",
        None,
    )

    # The default is chosen with MiniLM, on the data of docs/explanation/results.md.
    learning_rate: Any = setting(
        "Highest learning rate of the encoder.", 1e-4, parser=NumberParser(1e-12), needs={"contrastive_epochs": ON}
    )
    # The rest of the training of the encoder.
    learning_rate_schedule: str = "linear"
    warmup_proportion: float = 0.1
    weight_decay_rate: float = 0.01
    adam_beta_1: float = 0.9
    adam_beta_2: float = 0.999
    adam_epsilon: float = 1e-6
    adam_bias_correction: bool = True
    clip_norm: float = 1.0
    ema_decay: float = 0.0
    # What other runs of fine-tuning may choose.
    train_batch_size: Any = 0
    num_train_epochs: Any = 0.0
    max_steps: int = 0
    num_seeds: int = 1
    eval_steps: int = 0
    early_stopping: int = 0
    label_smoothing: float = 0.0
    freeze_layers: int | None = None
    layer_decay: float = 1.0
    lora_rank: int = 0
    lora_alpha: float | None = None
    lora_targets: str = ",".join(DEFAULT_LORA_TARGETS)
    new_head: bool = True
    pack: Any = False
    recompute: bool = False
    gradient_accumulation_steps: int = 1
    iterations_per_loop: int = 1000
    log_steps: int = 1000
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 1

    def without_effect(self) -> Iterator[tuple[str, Message]]:
        yield from super().without_effect()
        if not self.contrastive_epochs:
            yield "seed", Message("with {contrastive_epochs}=0; leave one of the two out")
        if self.do_train and not self.train_file:
            for name in ("class_weights", "calibrate"):
                yield name, Message("without {train_file}; give both, or leave it out")

    def for_evaluation(self, eval_file: str | None = None) -> ClassifierSettings:
        return classifier_settings(self).for_evaluation(eval_file)


def check_few_shot(settings: FewShotSettings) -> None:
    """Checks that the settings are consistent."""
    names = settings.class_names
    if settings.do_train and not (settings.train_file or names):
        raise Mistake("{do_train} needs {train_file}, or {class_names}")
    if len(names) == 1:
        raise Mistake("{class_names} has one name; give the names of two classes or more, separated by commas")
    check_names(names, Setting("class_names"))


def classifier_settings(settings: FewShotSettings) -> ClassifierSettings:
    """Returns the settings of a classifier that reads the same files; it trains only if one of them has labels."""
    shared = {field.name for field in setting_fields(settings)} & {
        field.name for field in setting_fields(ClassifierSettings)
    }
    read = ClassifierSettings(**{name: getattr(settings, name) for name in shared})
    return dataclasses.replace(read, do_train=settings.do_train and bool(settings.train_file))
