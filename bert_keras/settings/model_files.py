"""The files of a model, for all programs that open one."""

import dataclasses

from bert_keras.settings.fields import free, setting

# Rules that split texts into words with tags: as in tagged corpora, or as the tokenizer of the model does.
WORDS = ("conll", "transformers")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Files next to a checkpoint, and how to prepare texts; what is not given comes from the checkpoint's folder."""

    title = "Files of the model"

    bert_config_file: str | None = free(
        "Config of the model. If not given: the config next to the checkpoint.", None, is_rare=True
    )
    vocab_file: str | None = free(
        "Vocabulary of the model. If not given: the vocab.txt or tokenizer.json next to the checkpoint.",
        None,
        is_rare=True,
    )
    do_lower_case: bool | None = free(
        "Lower-case texts and strip accents. If not given: as in the training of the model.", None, is_rare=True
    )
    strip_accents: bool | None = free(
        "Strip accents, or keep them. If not given: as in the training of the model.", None, is_rare=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OpenFacts:
    """What the folder of another library may leave open."""

    title = "Models of other libraries"

    is_pair: bool | None = setting("Whether a classifier of another library takes pairs of texts.", None)
    words: str | None = setting(
        "Words of a model with tags from elsewhere. If not given: transformers.", None, choices=WORDS
    )
