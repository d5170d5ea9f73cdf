"""docs/guides/migrating.md: its tables of flags agree with the programs."""

import ast
import pathlib
import re

import pytest
from guards import at_least
from training_programs import run_classifier, run_pretraining, run_squad

from bert_keras.cli.other_names import name_here
from bert_keras.commands import convert_checkpoint, extract_features, predict
from bert_keras.data_prep import create_pretraining_data

PAGE = (pathlib.Path(__file__).resolve().parents[1] / "docs" / "guides" / "migrating.md").read_text(encoding="utf-8")
PROGRAMS = {
    "data_prep/create_pretraining_data.py": create_pretraining_data,
    "run_pretraining.py": run_pretraining,
    "run_classifier.py": run_classifier,
    "run_squad.py": run_squad,
    "extract_features.py": extract_features,
}
_OF_TRAINING = """
    use_tpu=False tpu_name=None tpu_zone=None gcp_project=None master=None num_tpu_cores=8 iterations_per_loop=1000
    save_checkpoints_steps=1000 bert_config_file=None output_dir=None init_checkpoint=None do_train=False
    train_batch_size=32 learning_rate=5e-5"""
_OF_FINE_TUNING = f"""{_OF_TRAINING}
    vocab_file=None do_lower_case=True do_predict=False predict_batch_size=8 num_train_epochs=3.0
    warmup_proportion=0.1"""
# Names and defaults in google-research/bert.
ORIGINAL = {
    "data_prep/create_pretraining_data.py": """
        input_file=None output_file=None vocab_file=None do_lower_case=True do_whole_word_mask=False max_seq_length=128
        max_predictions_per_seq=20 random_seed=12345 dupe_factor=10 masked_lm_prob=0.15 short_seq_prob=0.1""",
    "run_pretraining.py": f"""{_OF_TRAINING}
        input_file=None max_seq_length=128 max_predictions_per_seq=20 do_eval=False eval_batch_size=8
        num_train_steps=100000 num_warmup_steps=10000 max_eval_steps=100""",
    "run_classifier.py": f"""{_OF_FINE_TUNING}
        data_dir=None task_name=None max_seq_length=128 do_eval=False eval_batch_size=8""",
    "run_squad.py": f"""{_OF_FINE_TUNING}
        train_file=None predict_file=None max_seq_length=384 doc_stride=128 max_query_length=64 n_best_size=20
        max_answer_length=30 verbose_logging=False version_2_with_negative=False null_score_diff_threshold=0.0""",
    "extract_features.py": """
        input_file=None output_file=None layers='-1,-2,-3,-4' bert_config_file=None max_seq_length=128
        init_checkpoint=None vocab_file=None do_lower_case=True batch_size=32 use_tpu=False master=None num_tpu_cores=8
        use_one_hot_embeddings=False""",
}


def names_in(cell):
    return set(re.findall(r"`(\w+)`", cell))


def rows_of(header):
    """Returns the rows of the table with this first line, as lists of cells."""
    table = PAGE.split(f"{header}\n", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[1:]]


# Of the table, but not arguments with a counterpart of the same meaning.
WITHOUT_A_NAME = ("optim", "EarlyStoppingCallback", "compute_loss", "Trainer")

ROWS = {
    cells[0].strip("`"): [names_in(cell) for cell in cells[1:]]
    for cells in rows_of("| program | same name, default and meaning | accepted with a difference |")
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_table_has_every_flag_of_the_original_and_its_default(program):
    same, different = ROWS[program]
    pairs = [pair.split("=") for pair in ORIGINAL[program].split()]
    original = {name: ast.literal_eval(value) for name, value in pairs}
    flag_values = PROGRAMS[program].define_flags()
    assert same | different == set(original)
    assert not same & different
    assert different <= set(flag_values)
    for name in same:
        default = flag_values[name].default
        assert (default[0] if isinstance(default, tuple) else default) == original[name], name


def test_every_difference_is_explained():
    explained = set.union(*(names_in(cells[0]) for cells in rows_of("| flag | original | here |")))
    assert explained == {"bert_hub_module_handle"} | set.union(*(different for _, different in ROWS.values()))


def test_every_other_flag_of_the_page_exists():
    known = {name for module in (*PROGRAMS.values(), convert_checkpoint, predict) for name in module.define_flags()}
    assert set(at_least(10, re.findall(r"--(\w+)", PAGE))) - {"help"} <= known


def test_an_unknown_name_of_the_trainer_is_translated_as_on_the_page():
    """A name that has no flag of this name here is in the table that messages use, with the same flag."""
    rows = rows_of("| `TrainingArguments` | flag here | note |")
    known = {name for module in PROGRAMS.values() for name in module.define_flags()}
    found = 0
    for there, here, _ in rows:
        targets = set(re.findall(r"`--(\w+)", here)) & known
        for name in re.findall(r"`(\w+)", there):
            if targets and name not in known and name not in WITHOUT_A_NAME:
                assert (name_here(name, targets) or "").partition("=")[0] in targets, name
                found += 1
    assert found >= 20
