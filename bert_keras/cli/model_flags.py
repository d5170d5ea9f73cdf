"""The flags that name the files of a model, for all programs that open one."""

from typing import Any

from absl import flags


def define_model_flags(flag_values, init_checkpoint=None):
    """Defines the flags of a model's files. `init_checkpoint` is the help text of that flag; None leaves it out."""
    define: dict[str, Any] = {"flag_values": flag_values}
    if init_checkpoint:
        flags.DEFINE_string("init_checkpoint", None, init_checkpoint, **define)
    flags.DEFINE_string(
        "bert_config_file", None, "Config of the model. If not given: the config next to the checkpoint.", **define
    )
    flags.DEFINE_string(
        "vocab_file",
        None,
        "Vocabulary of the model. If not given: the vocab.txt or tokenizer.json next to the checkpoint.",
        **define,
    )
    flags.DEFINE_bool(
        "do_lower_case",
        None,
        "Lower-case texts and strip accents. If not given: as in the training of the model.",
        **define,
    )
    flags.DEFINE_bool(
        "strip_accents",
        None,
        "Strip accents, or keep them. If not given: as in the training of the model.",
        **define,
    )
