"""Splits examples into those to train on and those to evaluate or to calibrate on."""

from collections.abc import Sequence

from bert_keras.mistakes import Message
from bert_keras.tasks.classification.labels import LABELS
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.header import are_numbers
from bert_keras.tasks.tables.held_out import choose_held_out

_CALIBRATION_SHARE = 0.1


def hold_out(
    examples: Sequence[Example], share: float, path: str, kind: str, purpose: str = "evaluation"
) -> tuple[list[Example], list[Example]]:
    """Returns the examples to train on and the held-out ones, both in the order of the file; see `choose_held_out`."""
    rules = LABELS[kind]()
    labels = [rules.names_in(example.label) for example in examples] if rules.has_classes else None
    hint: str | Message = ""
    if rules.has_one and are_numbers(str(example.label).replace(",", ".") for example in examples):
        hint = Message("labels that are numbers need {kind}=regression")
    keys = (example.key for example in examples)
    held_out = choose_held_out(keys, share, path, labels, hint=hint, purpose=purpose)
    train = [example for number, example in enumerate(examples) if number not in held_out]
    return train, [examples[number] for number in sorted(held_out)]


def hold_out_for_calibration(
    settings: ClassifierSettings, train: list[Example], kind: str
) -> tuple[list[Example], list[Example] | None]:
    """Returns the examples to train on, and those to calibrate on."""
    if not settings.calibrate:
        return train, None
    source = settings.train_file or settings.task_name or settings.tfds or ""
    return hold_out(train, _CALIBRATION_SHARE, source, kind, "calibration")
