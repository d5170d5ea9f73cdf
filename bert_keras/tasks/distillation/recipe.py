"""The losses of a distillation that its settings choose."""

import dataclasses
from collections.abc import Mapping, Sequence

from bert_keras.mistakes import Mistake
from bert_keras.modeling.config import BertConfig
from bert_keras.settings.groups import DistillationSettings
from bert_keras.storage.tokenizer.vocabulary import vocabulary_digest


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The weights of the losses in their sum, and what they compare.

    Attributes:
        label: weight of the task's own loss.
        soft: weight of the loss against the teacher's predictions.
        hidden: weight of the mean squared difference between hidden states.
        attention: weight of the divergence between attention probabilities.
        cosine: weight of 1 minus the cosine between the hidden states of the last layers.
        temperature: logits are divided by it in the soft loss.
        teacher_layers: for each layer of the student, the number from 1 of the teacher's layer that it imitates in the
            hidden and attention losses; 0: none.
    """

    label: float = 1.0
    soft: float = 1.0
    hidden: float = 0.0
    attention: float = 0.0
    cosine: float = 0.0
    temperature: float = 1.0
    teacher_layers: tuple[int, ...] = ()

    @property
    def extras(self) -> dict[str, float]:
        """The weights above 0 of the losses by metric, besides that of the task."""
        weights = {name: getattr(self, name) for name in ("soft", "hidden", "attention", "cosine")}
        return {f"{name}_loss": weight for name, weight in weights.items() if weight}

    @property
    def needs_layers(self) -> bool:
        """Whether a loss compares layers, so that the teacher must be a network of Keras."""
        return bool(self.hidden or self.attention or self.cosine)


def recipe_of(settings: DistillationSettings, teacher: BertConfig | None, config: BertConfig) -> Recipe:
    """Returns the recipe of the settings, and checks it.

    Args:
        teacher: config of the teacher; None for an export, whose layers are not known.
        config: that of the student.
    """
    if teacher is not None and teacher.is_decoder != config.is_decoder:
        readers = ("teacher", "student") if teacher.is_decoder else ("student", "teacher")
        raise Mistake(
            "the {} reads left to right (is_decoder in its config), but the {} sees all tokens; "
            "their outputs for a token answer different questions, so give a teacher that reads as the student does",
            readers[0],
            readers[1],
        )
    recipe = Recipe(
        settings.label_loss_weight,
        settings.soft_loss_weight,
        settings.hidden_loss_weight,
        settings.attention_loss_weight,
        settings.cosine_loss_weight,
        settings.temperature,
    )
    if not recipe.extras:
        raise Mistake("all weights of the losses against the teacher are 0; give {soft_loss_weight} above 0")
    if recipe.needs_layers and teacher is None:
        raise Mistake(
            "{hidden_loss_weight} and {attention_loss_weight} compare layers, which an export does not give; "
            "leave them out, or give the run that was exported as {teacher}"
        )
    if teacher is None or not (recipe.hidden or recipe.attention):
        return recipe
    ours, theirs = config.num_hidden_layers, teacher.num_hidden_layers
    return dataclasses.replace(recipe, teacher_layers=_layers(settings.teacher_layers, ours, theirs))


def check_same_input(
    path: str,
    teacher: BertConfig,
    vocab: Mapping[str, int] | None,
    student: Mapping[str, int] | None,
    source: str,
    max_seq_length: int,
) -> None:
    """Refuses a teacher that does not read the same sequences as the student.

    Args:
        path: of the teacher.
        teacher: its config.
        vocab: its vocabulary; None: unknown.
        student: the vocabulary of the student; None: unknown.
        source: the file of the latter.
        max_seq_length: of the student.
    """
    if vocab and student and vocabulary_digest(vocab) != vocabulary_digest(student):
        raise Mistake(
            "{teacher}={} has another vocabulary than {}, but both networks read the same token ids; give a "
            "student with the teacher's vocabulary",
            path,
            source,
        )
    longest = teacher.max_position_embeddings
    if max_seq_length > longest:
        raise Mistake(
            "{max_seq_length}={0} is more than the {1} positions of {teacher}={2}; give {1} or less",
            max_seq_length,
            longest,
            path,
        )


def _layers(given: Sequence[int] | None, ours: int, theirs: int) -> tuple[int, ...]:
    """Returns the teacher's layer for each layer of the student; by default they are evenly spaced, with the last."""
    if not given:
        if theirs % ours:
            raise Mistake(
                "the {} layers of the teacher are not a multiple of the student's {}; name those to imitate "
                "with {teacher_layers}",
                theirs,
                ours,
            )
        return tuple(range(theirs // ours, theirs + 1, theirs // ours))
    if len(given) != ours or not any(given) or not all(0 <= layer <= theirs for layer in given):
        raise Mistake(
            "{teacher_layers}={} must be {} numbers from 1 to {}, one for each layer of the student, or 0 "
            "for a layer without",
            ",".join(map(str, given)),
            ours,
            theirs,
        )
    return tuple(given)
