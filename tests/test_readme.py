"""The programs accept the commands of the README and the docs."""

import pathlib
import re
import shlex
import shutil

import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import random_model, write_model

import check_tpu
import convert_checkpoint
import evaluate_predictions
import export_model
import extract_features
import predict
import run_classifier
import run_ner
import run_pretraining
import run_squad
from bert_keras.cli.flags import parse
from bert_keras.data_prep import build_vocab, create_pretraining_data, create_pretraining_data_beam

ROOT = pathlib.Path(__file__).resolve().parents[1]
# The flags of each program, and the page that explains them.
PROGRAMS = {
    "tools/check_tpu.py": (check_tpu, "tpu.md"),
    "convert_checkpoint.py": (convert_checkpoint, "checkpoints.md"),
    "evaluate_predictions.py": (evaluate_predictions, "evaluation.md"),
    "export_model.py": (export_model, "export.md"),
    "extract_features.py": (extract_features, "extract_features.md"),
    "predict.py": (predict, "predict.md"),
    "run_classifier.py": (run_classifier, "classification.md"),
    "run_ner.py": (run_ner, "ner.md"),
    "run_pretraining.py": (run_pretraining, "pretraining.md"),
    "run_squad.py": (run_squad, "squad.md"),
    "data_prep/build_vocab.py": (build_vocab, "build_vocab.md"),
    "data_prep/create_pretraining_data.py": (create_pretraining_data, "create_pretraining_data.md"),
    "data_prep/create_pretraining_data_beam.py": (create_pretraining_data_beam, "create_pretraining_data.md"),
}
PAGES_WITH_PYTHON = (
    "guides/checkpoints",
    "guides/create_pretraining_data",
    "guides/evaluation",
    "guides/extract_features",
    "guides/predict",
    "explanation/tokenization",
)


def commands():
    """Return every `python program --flags` of a code block, with continuation lines joined."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                for part in line.split("&&"):
                    words = shlex.split(part) if part.strip().startswith("python ") else []
                    if len(words) > 1 and words[1] in PROGRAMS:
                        yield pytest.param(words[1:], id=f"{path.name}: {' '.join(words[1:3])}")


@pytest.mark.parametrize("words", list(commands()))
def test_the_program_takes_the_command(words):
    flag_values = PROGRAMS[words[0]][0].define_flags()
    # Arguments after -- go to Beam's runner.
    words = words[: words.index("--")] if "--" in words else words
    parse(flag_values, words, "", takes_texts=words[0] in ("predict.py", "evaluate_predictions.py"))


def test_the_readme_has_the_two_commands_of_a_new_user():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert "pip install -e . && python run_classifier.py" in lines
    assert "pip install -e '.[test]' && pytest" in lines


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Tiny models of random weights that replace the released models and the runs of other pages."""
    folder = tmp_path_factory.mktemp("files")
    model = write_model(folder / "uncased_L-12_H-768_A-12", random_model())
    write_fine_tuned(folder / "news", random_classifier(2), "classification", labels=["no", "yes"], **OF_TEXTS)
    write_fine_tuned(
        folder / "bert_demo/messages", random_classifier(2), "classification", labels=["no", "yes"], **OF_TEXTS
    )
    shutil.copy(model / "vocab.txt", folder)
    (folder / "text.txt").write_text("He was hungry.\nSo he ate.\n\nParis is the capital.\nShe is in Paris.\n")
    return folder


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}.md" for name in PAGES_WITH_PYTHON)])
def test_python_of_the_pages_runs(page, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
    if page == "README.md":
        assert capsys.readouterr().out in ("no\n", "yes\n")
    if page == "docs/guides/checkpoints.md":
        assert "loaded 46 of 46 weights" in capsys.readouterr().out


def test_links_lead_somewhere():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_flag_is_explained(program):
    module, page = PROGRAMS[program]
    text = (ROOT / "docs" / "guides" / page).read_text(encoding="utf-8")
    for name in module.define_flags():
        assert f"`--{name}`" in text, name
