"""The table of settings without an effect: each row refuses its setting in its runs, and in no others."""

import dataclasses
from typing import Any

import pytest

from bert_keras.mistakes import Message
from bert_keras.programs import classifier, few_shot, ner, pretraining, reranker, sentence_vectors, squad
from bert_keras.settings.effects import NO_EFFECT, Other, check_effects
from bert_keras.settings.fields import program_flags, setting

PROGRAMS = [
    program_flags(each._PROGRAM.settings)
    for each in (classifier, few_shot, ner, pretraining, reranker, sentence_vectors, squad)
]
# The facts that are not settings, each with a value that no row has in its condition.
FACTS = {"program": "x", "source": "x", "data_name": "x", "kind": "x", "has_labels": True, "frozen": "none"}
FACTS |= {"has_lora": False, "has_head": True, "unchanged_encoder": "", "cannot_pack": "", "cannot_smooth": ""}
FACTS |= {"without_columns": "", "has_sentence_task": True}
# The settings that every run of their programs reads, if it does what they are for: do_predict needs predict_file.
ALWAYS_USED = """
    adam_beta_1 adam_beta_2 adam_bias_correction adam_epsilon answer_language answer_text bert_config_file
    class_names clip_norm contrastive_epochs deterministic do_eval do_lower_case do_predict do_train doc_stride
    document_context ema_decay eval_batch_size gradient_accumulation_steps init_checkpoint input_file
    iterations_per_loop jit keep_checkpoint_max learning_rate learning_rate_schedule log_steps
    masked_lm_loss_weight max_answer_length max_eval_steps max_predictions_per_seq max_query_length max_seq_length
    max_steps mine_negatives n_best_size normalize num_seeds num_train_epochs num_train_steps num_warmup_steps
    objective output_dir pooling precision predict_batch_size predict_file prefix rerank_loss run_config
    save_checkpoints_steps score_column strategy strip_accents tagger task_name text_columns tfds train_batch_size
    train_file use_tpu verbose_logging version_2_with_negative vocab_file warmup_proportion weight_decay_rate
"""
VALUE = "a value"  # of the setting of a row; conditions never have it


def name_of(row):
    return f"{row.setting}-{'-'.join(row.when)}"


def value_in(wanted):
    """Returns a value that fits a condition."""
    if isinstance(wanted, Other):
        return "another reason"
    return sorted(wanted)[0] if isinstance(wanted, set) else wanted


def value_outside(wanted):
    return wanted.than if isinstance(wanted, Other) else "something else"


def check(row, changes=(), given=None, **settings):
    """Checks a run in which all conditions of a row are true, except for the changes."""
    known = {name: value_in(wanted) for name, wanted in row.when.items()} | dict(changes)
    facts = {name: value for name, value in known.items() if name in FACTS}
    settings = {"do_train": True, **known, row.setting: VALUE, **settings}
    settings = {name: value for name, value in settings.items() if name not in facts}
    fields = [(name, Any, setting("Meaning.", "default" if name == row.setting else None)) for name in settings]
    made = dataclasses.make_dataclass("Made", fields)(**settings)
    check_effects(made, {row.setting} if given is None else given, facts, (row,))


@pytest.mark.parametrize("row", NO_EFFECT, ids=name_of)
def test_each_row_refuses_its_setting_in_its_runs_alone(row):
    with pytest.raises(ValueError, match=rf"^{row.setting} \w.* .*; {Message(row.remedy)}$") as error:
        check(row)
    assert "{" not in str(error.value)
    for name, wanted in row.when.items():
        check(row, {name: value_outside(wanted)})  # and no error
    if row.harmless is not None:
        check(row, **{row.setting: row.harmless})
    if "do_train" in row.when:
        return
    # The setting of a run without training may come from its training, unless the command line has it.
    check(row, do_train=False, given=())
    if row.in_training:
        check(row, do_train=False)
    else:
        with pytest.raises(ValueError, match=f"^{row.setting} "):
            check(row, do_train=False)
    with pytest.raises(ValueError, match=f"^{row.setting} "):
        check(row, given=())  # from a run_config.json
    check(row, given=(), **{row.setting: "default"})


@pytest.mark.parametrize("row", NO_EFFECT, ids=name_of)
def test_each_row_is_of_a_program_whose_flags_can_have_its_values(row):
    """A row with a misspelt name would never refuse anything."""
    programs = [
        values
        for values in PROGRAMS
        if row.setting in values and all(name in values or name in FACTS for name in row.when)
    ]
    assert programs
    for name, wanted in row.when.items():
        values = [wanted.than] if isinstance(wanted, Other) else wanted if isinstance(wanted, set) else [wanted]
        for value in values:
            if name not in FACTS and value is not None:
                parsed = programs[0][name].parser.parse(value)
                assert parsed == value


def test_a_new_flag_has_a_row_or_is_always_used():
    of_table, always_used = {row.setting for row in NO_EFFECT}, set(ALWAYS_USED.split())
    assert of_table | always_used == {name for values in PROGRAMS for name in values}
    assert not of_table & always_used
