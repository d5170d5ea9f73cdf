"""The flags of all programs, and the commands of the README and the docs, which the programs accept."""

import json
import pathlib
import shlex

import pytest
from blocks import blocks_of, logical_lines, pages
from guards import at_least
from training_programs import (
    check_labels,
    run_classifier,
    run_few_shot,
    run_ner,
    run_pretraining,
    run_reranker,
    run_sentence_vectors,
    run_squad,
)

from bert_keras.cli.flags import parse
from bert_keras.commands import (
    check_tpu,
    convert_checkpoint,
    evaluate_predictions,
    export_model,
    extract_features,
    predict,
    serve,
    try_file,
)
from bert_keras.data_prep import build_vocab, create_pretraining_data, create_pretraining_data_beam
from studies import run_study

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The flags of each program, and the page that explains them.
PROGRAMS = {
    "tools/check_tpu.py": (check_tpu, "tpu.md"),
    "check_labels.py": (check_labels, "check_labels.md"),
    "convert_checkpoint.py": (convert_checkpoint, "checkpoints.md"),
    "evaluate_predictions.py": (evaluate_predictions, "evaluation.md"),
    "export_model.py": (export_model, "export.md"),
    "extract_features.py": (extract_features, "extract_features.md"),
    "predict.py": (predict, "predict.md"),
    "serve.py": (serve, "serve.md"),
    "try_file.py": (try_file, "classification.md"),
    "run_classifier.py": (run_classifier, "classification.md"),
    "run_few_shot.py": (run_few_shot, "classification.md"),
    "run_ner.py": (run_ner, "ner.md"),
    "run_pretraining.py": (run_pretraining, "pretraining.md"),
    "run_reranker.py": (run_reranker, "reranking.md"),
    "run_sentence_vectors.py": (run_sentence_vectors, "sentence_vectors.md"),
    "run_squad.py": (run_squad, "squad.md"),
    "studies/run_study.py": (run_study, "studies.md"),
    "data_prep/build_vocab.py": (build_vocab, "build_vocab.md"),
    "data_prep/create_pretraining_data.py": (create_pretraining_data, "create_pretraining_data.md"),
    "data_prep/create_pretraining_data_beam.py": (create_pretraining_data_beam, "create_pretraining_data.md"),
}
TAKE_TEXTS = ("predict.py", "try_file.py", "evaluate_predictions.py", "studies/run_study.py")


@pytest.mark.parametrize("program", PROGRAMS)
def test_names_and_defaults_of_flags_are_fixed(program, golden_dir):
    """Who changes one on purpose changes it in tests/golden/flags.json, too."""
    values = PROGRAMS[program][0].define_flags()
    found = {name: values[name].default for name in values}
    assert json.loads(json.dumps(found)) == json.loads((golden_dir / "flags.json").read_text())[program]


def commands():
    """Return every `python program --flags` of the pages, also of blocks that no test runs."""
    for page in pages():
        for block in blocks_of(page):
            for line in logical_lines(block.text) if block.kind == "commands" else ():
                for part in line.split("&&"):
                    words = shlex.split(part, comments=True) if part.strip().startswith("python ") else []
                    words = words[: words.index("|")] if "|" in words else words
                    if len(words) > 1 and words[1] in PROGRAMS:
                        yield page.split("/")[-1], words[1:]


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=f"{page}: {' '.join(words[:2])}") for page, words in at_least(150, commands())]
)
def test_the_program_takes_the_command(words):
    flag_values = PROGRAMS[words[0]][0].define_flags()
    # Arguments after -- go to Beam's runner.
    words = words[: words.index("--")] if "--" in words else words
    parse(flag_values, words, "", takes_texts=words[0] in TAKE_TEXTS)


def test_the_readme_has_the_two_commands_of_a_new_user():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "pip install . && python run_classifier.py" in lines
    assert "pip install -e '.[test]' && pytest" in lines


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_of_a_program_links_to_its_flags(program):
    text = (ROOT / "docs" / "guides" / PROGRAMS[program][1]).read_text(encoding="utf-8")
    if program != "data_prep/create_pretraining_data_beam.py":  # the flags of create_pretraining_data.py
        assert f"(../reference/programs/{pathlib.Path(program).stem}.md)" in text
