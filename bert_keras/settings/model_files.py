"""The files of a model, for all programs that open one."""

import dataclasses

from bert_keras.settings.fields import setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Files next to a checkpoint, and how to prepare texts; what is not given comes from the checkpoint's folder."""

    title = "Files of the model"

    bert_config_file: str | None = setting(
        "Config of the model. If not given: the config next to the checkpoint.", None, is_free=True
    )
    vocab_file: str | None = setting(
        "Vocabulary of the model. If not given: the vocab.txt or tokenizer.json next to the checkpoint.",
        None,
        is_free=True,
    )
    do_lower_case: bool | None = setting(
        "Lower-case texts and strip accents. If not given: as in the training of the model.", None, is_free=True
    )
    strip_accents: bool | None = setting(
        "Strip accents, or keep them. If not given: as in the training of the model.", None, is_free=True
    )
