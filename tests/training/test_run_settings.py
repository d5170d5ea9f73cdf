"""Settings without an effect: each condition refuses its setting in its runs, and in no others."""

import dataclasses

import pytest

from bert_keras.mistakes import Mistake
from bert_keras.programs import command
from bert_keras.settings.effects import ON, is_meant, refuse
from bert_keras.settings.fields import Settings, setting, setting_fields

PROGRAMS = [program.settings for name, program in command.PROGRAMS.items() if name != "check_labels"]
# The settings that every run of their programs reads, if it does what they are for: do_predict needs predict_file.
ALWAYS_USED = """
    adam_beta_1 adam_beta_2 adam_bias_correction adam_epsilon answer_language answer_text bert_config_file
    class_names clip_norm contrastive_epochs coordinator_address deterministic do_eval do_lower_case do_predict
    do_train doc_stride document_context ema_decay eval_batch_size gradient_accumulation_steps init_checkpoint
    input_file iterations_per_loop jit keep_checkpoint_max learning_rate learning_rate_schedule log_steps
    masked_lm_loss_weight max_answer_length max_eval_steps max_predictions_per_seq max_query_length
    max_seq_length max_steps mine_negatives n_best_size normalize num_seeds num_train_epochs num_train_steps
    num_warmup_steps objective output_dir pooling precision predict_batch_size predict_file prefix rerank_loss
    run_config save_checkpoints_steps score_column strategy strip_accents task_name text_columns tfds
    train_batch_size train_file use_tpu verbose_logging version_2_with_negative vocab_file warmup_proportion
    weight_decay_rate words
"""
# Those that some data or models do not use; `Task.no_effect` and the run have the reasons.
OF_DATA = "freeze_layers layer_decay lora_rank recompute label_smoothing scale max_score word_column tag_column pack"
# Those of methods: eval_steps, metric and eval_file need do_eval; seed and xnli_language are compared with others.
OF_METHODS = "eval_steps metric eval_file seed xnli_language class_weights calibrate"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Made(Settings):
    title = "Made up"
    do_train: bool = setting("Train.", False)
    teacher: str | None = setting("Teacher.", None)
    objective: str = setting("Task.", "lm", choices=("lm", "spans", "electra"))
    rank: int = setting("Rank.", 4)
    alpha: float | None = setting("Alpha.", None, needs={"rank": ON})
    temperature: float = setting("Temperature.", 2.0, needs={"do_train": True, "teacher": ON})
    size: float = setting("Size.", 0.25, needs={"objective": {"electra", "spans"}})
    weight: float = setting("Weight.", 1.0, needs={"objective": "lm"}, harmless=0.0)
    layers: tuple[int, ...] = setting("Layers.", (), needs_any=("teacher", "rank"))
    column: str | None = setting("Column.", None, unless={"teacher": ON, "objective": "electra"}, needs={"wings": ON})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 2.0, "rank": 0}, "alpha has no effect without rank, which is 0; give both, or leave it out"),
        ({"temperature": 3.0}, "temperature has no effect without do_train; give both, or leave it out"),
        (
            {"temperature": 3.0, "do_train": True},
            "temperature has no effect without teacher; give both, or leave it out",
        ),
        ({"size": 0.5}, "size has no effect without objective=electra or spans; give both, or leave it out"),
        (
            {"weight": 2.0, "objective": "spans"},
            "weight has no effect without objective=lm; give both, or leave it out",
        ),
        (
            {"layers": (1,), "rank": 0},
            "layers has no effect without one of teacher, rank; give one as well, or leave it out",
        ),
        ({"column": "a", "teacher": "b"}, "column has no effect with teacher; leave one of the two out"),
        (
            {"column": "a", "objective": "electra"},
            "column has no effect with objective=electra; leave one of the two out",
        ),
    ],
)
def test_a_condition_refuses_its_setting(given, message):
    for settings in (Made(**given, given=frozenset(given)), Made(**given | {"do_train": True}, given=frozenset(given))):
        if "without do_train" in message and settings.do_train:
            continue
        with pytest.raises(Mistake) as error:
            settings.check_effects()
        assert str(error.value) == message


@pytest.mark.parametrize(
    "given",
    [
        {"alpha": 2.0},
        {"temperature": 3.0, "do_train": True, "teacher": "a"},
        {"size": 0.5, "objective": "electra"},
        {"weight": 0.0, "objective": "spans"},
        {"layers": (1,)},
        {"layers": (1,), "rank": 0, "teacher": "a"},
        {"column": "a"},
    ],
)
def test_a_setting_with_an_effect_is_accepted(given):
    Made(**given, given=frozenset(given)).check_effects()


def test_a_value_of_an_earlier_run_is_refused_only_in_training():
    Made(temperature=3.0).check_effects()
    with pytest.raises(Mistake, match="^temperature has no effect without teacher"):
        Made(temperature=3.0, do_train=True).check_effects()
    Made(do_train=True).check_effects()


def test_what_the_data_do_not_use_is_refused_with_the_reason():
    reasons = {"rank": "the layers are frozen", "wings": "the program has no such setting"}
    refuse(Made(), reasons)
    refuse(Made(rank=4, given=frozenset({"column"})), reasons)
    with pytest.raises(Mistake, match="^rank does not apply: the layers are frozen; leave it out$"):
        refuse(Made(rank=4, given=frozenset({"rank"})), reasons)
    with pytest.raises(Mistake, match="^rank does not apply"):
        refuse(Made(rank=8, do_train=True), reasons)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_conditions_name_settings_of_a_program_and_values_that_they_can_have(program):
    """A condition with a misspelt name would never refuse anything."""
    known = {field.name for each in PROGRAMS for field in dataclasses.fields(each)}
    own = {field.name: field for field in setting_fields(program)}
    for field in own.values():
        conditions = field.metadata["needs"] | field.metadata["unless"]
        assert {*conditions, *field.metadata["needs_any"]} <= known
        for name, wanted in conditions.items():
            if name in own and wanted is not ON and own[name].metadata["limits"].get("enum_values"):
                values = wanted if isinstance(wanted, set) else {wanted}
                assert values <= set(own[name].metadata["limits"]["enum_values"])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_defaults_of_a_program_are_accepted(program):
    for do_train in (False, True):
        settings = program(do_train=do_train)
        settings.check_effects()
        assert not is_meant(settings, "given")


def test_a_new_setting_has_a_condition_or_is_always_used():
    always, of_data, of_methods = (set(names.split()) for names in (ALWAYS_USED, OF_DATA, OF_METHODS))
    fields = [field for program in PROGRAMS for field in setting_fields(program)]
    conditional = {
        field.name for field in fields if any(field.metadata[name] for name in ("needs", "needs_any", "unless"))
    }
    assert {field.name for field in fields} == always | of_data | of_methods | conditional
    # The learning rate of few labels needs epochs of the encoder; that of every other program is always used.
    assert not always & (of_data | of_methods | conditional - {"learning_rate"})
