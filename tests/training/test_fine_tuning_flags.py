"""The flags of all programs that train, and numbers separated by commas."""

import pytest
from absl import flags

import run_classifier
import run_ner
import run_pretraining
import run_squad
from bert_keras.cli.flags import parse
from bert_keras.training.finetuning.settings import define_fine_tuning_flags
from bert_keras.training.settings import NumbersParser

# Names and defaults. The flags of the original BERT keep theirs, except do_lower_case, whose default was True.
OF_ALL_PROGRAMS = {
    "init_checkpoint": None,
    "bert_config_file": None,
    "vocab_file": None,
    "output_dir": None,
    "max_seq_length": 128,
    "do_train": False,
    "save_checkpoints_steps": 1000,
    "iterations_per_loop": 1000,
    "use_tpu": False,
    "tpu_name": None,
    "tpu_zone": None,
    "gcp_project": None,
    "master": None,
    "num_tpu_cores": 8,
    "strategy": "auto",
    "seed": 12345,
    "eval_steps": 0,
    "log_steps": 10,
    "gradient_accumulation_steps": 1,
    "learning_rate_schedule": "linear",
    "weight_decay_rate": 0.01,
    "adam_beta_1": 0.9,
    "adam_beta_2": 0.999,
    "adam_epsilon": 1e-6,
    "clip_norm": 1.0,
    "ema_decay": 0.0,
    "keep_checkpoint_max": 5,
    "deterministic": False,
    "precision": "float32",
    "recompute": False,
    "jit": False,
    "run_config": None,
}
OF_FINE_TUNING = OF_ALL_PROGRAMS | {
    "do_lower_case": None,
    "strip_accents": None,
    "do_predict": False,
    "train_batch_size": (32,),
    "predict_batch_size": 8,
    "learning_rate": (5e-05,),
    "num_train_epochs": (3.0,),
    "warmup_proportion": 0.1,
    "num_seeds": 1,
    "early_stopping": 0,
    "label_smoothing": 0.0,
    "max_steps": 0,
    "freeze_layers": None,
    "layer_decay": 1.0,
    "lora_rank": 0,
    "lora_alpha": None,
    "lora_targets": "query,value",
    "new_head": False,
}
OF_EVALUATION = {"do_eval": False, "eval_batch_size": 8, "pack": False}
OF_CLASSIFICATION = {
    "data_dir": None,
    "task_name": None,
    "choice_columns": [],
    "class_weights": None,
    "doc_stride": None,
    "eval_file": None,
    "eval_share": 0.0,
    "id_column": None,
    "kind": "single_label",
    "label_column": None,
    "has_header": "auto",
    "label_separator": None,
    "metric": None,
    "predict_file": None,
    "skip_bad_rows": False,
    "text_column": None,
    "text_pair_column": None,
    "tfds": None,
    "tfds_eval_split": "validation",
    "tfds_predict_split": "test",
    "train_file": None,
    "unlabeled_file": None,
    "xnli_language": "zh",
}
OF_TEACHING = {
    "teacher": None,
    "temperature": 2.0,
    "label_loss_weight": 0.5,
    "soft_loss_weight": 0.5,
    "hidden_loss_weight": 0.0,
    "attention_loss_weight": 0.0,
    "teacher_layers": None,
}
FLAGS = {
    run_pretraining: OF_ALL_PROGRAMS
    | {
        "input_file": None,
        "max_predictions_per_seq": 20,
        "do_eval": False,
        "train_batch_size": 32,
        "eval_batch_size": 8,
        "learning_rate": 5e-05,
        "num_train_steps": 100000,
        "num_warmup_steps": 10000,
        "max_eval_steps": 100,
        "eval_file": None,
        "allow_partial_checkpoint": False,
        "masked_lm_loss_weight": 1.0,
        "next_sentence_loss_weight": 1.0,
        "objective": "masked_lm",
        "generator_size": 0.25,
        "replaced_token_loss_weight": 50.0,
        "teacher": None,
        "temperature": 2.0,
        "soft_loss_weight": 5.0,
        "cosine_loss_weight": 1.0,
        "pack": False,
    },
    run_classifier: OF_FINE_TUNING | OF_EVALUATION | OF_CLASSIFICATION | OF_TEACHING,
    run_ner: OF_FINE_TUNING
    | OF_EVALUATION
    | OF_TEACHING
    | {
        "data_dir": None,
        "document_context": False,
        "eval_file": None,
        "predict_file": None,
        "tag_column": None,
        "tagger": "linear",
        "train_file": None,
        "word_column": None,
    },
    run_squad: OF_FINE_TUNING
    | OF_TEACHING
    | {
        "doc_stride": 128,
        "max_answer_length": 30,
        "max_query_length": 64,
        "max_seq_length": 384,
        "n_best_size": 20,
        "null_score_diff_threshold": 0.0,
        "predict_file": None,
        "train_file": None,
        "verbose_logging": False,
        "version_2_with_negative": False,
        "answer_language": None,
        "answer_text": "release",
        "eval_file": None,
    },
}


@pytest.fixture
def values():
    values = flags.FlagValues()
    define_fine_tuning_flags(values)
    return values


@pytest.mark.parametrize("program", FLAGS, ids=lambda program: program.__name__)
def test_names_and_defaults_are_fixed(program):
    values = program.define_flags()
    assert {name: values[name].default for name in values} == FLAGS[program]


def test_one_number_or_several(values):
    parse(values, ["run", "--learning_rate=2e-5, 3e-5,5e-5", "--train_batch_size=16", "--num_train_epochs=2,3.5"], "")
    assert values.learning_rate == (2e-5, 3e-5, 5e-5)
    assert values.train_batch_size == (16,)
    assert values.num_train_epochs == (2.0, 3.5)
    assert values["learning_rate"].serialize() == "--learning_rate=2e-05,3e-05,5e-05"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--learning_rate=fast", "'fast' is not a number"),
        ("--learning_rate=1e-5,", "'' is not a number"),
        ("--learning_rate=0", "0.0 is not above 0"),
        ("--learning_rate=nan", "nan is not a finite number"),
        ("--num_train_epochs=inf", "inf is not a finite number"),
        ("--num_train_epochs=-1", "-1.0 is not above 0"),
        ("--train_batch_size=1.5", "'1.5' is not a whole number"),
        ("--train_batch_size=0", "0 is not at least 1"),
        ("--learning_rate=1e-5,2e-5,0.00001", "a number occurs twice: 1e-5,2e-5,0.00001"),
        ("--num_seeds=0", "--num_seeds=0"),
        ("--seed=2147483648", "--seed=2147483648"),
        ("--layer_decay=1.1", "--layer_decay=1.1"),
        ("--warmup_proportion=2", "--warmup_proportion=2"),
        ("--eval_steps=-1", "--eval_steps=-1"),
        ("--weight_decay_rate=-0.1", "--weight_decay_rate=-0.1: -0.1 is not a number from 0 "),
        ("--adam_beta_1=1", "1 is not a number from 0 to below 1"),
        ("--adam_beta_2=1", "1 is not a number from 0 to below 1"),
        ("--adam_epsilon=0", "0 is not a number from 1e-30"),
        ("--clip_norm=inf", "inf is not a number from 0"),
        ("--ema_decay=nan", "nan is not a number from 0 to below 1"),
        ("--label_smoothing=1.5", "1.5 is not a number from 0 to below 1"),
        ("--adam_beta_2=much", "'much' is not a number"),
        ("--max_steps=-1", "--max_steps=-1"),
        ("--keep_checkpoint_max=-1", "--keep_checkpoint_max=-1"),
        ("--learning_rate_schedule=steep", "--learning_rate_schedule=steep"),
    ],
)
def test_values_that_cannot_be_are_refused(values, argument, message):
    with pytest.raises(ValueError, match=message):
        parse(values, ["run", argument], "")


def test_numbers_of_a_run_config_are_the_same_numbers():
    assert NumbersParser(float, 0).parse([1e-5, 2e-5]) == (1e-5, 2e-5)
    assert NumbersParser(int, 1).parse(32) == (32,)
    assert NumbersParser(float, 0).parse(3) == (3.0,)


def test_help_tells_the_kind_of_several_numbers(values):
    assert "(a comma separated list)" not in values.get_help()
    assert NumbersParser(float, 0).flag_type() == "floats"
    assert NumbersParser(int, 1).flag_type() == "ints"
