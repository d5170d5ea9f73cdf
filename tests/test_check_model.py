"""check_model.py: the facts of a folder of another library, its keys, and what can be done with it."""

import json
import shlex

import pytest
from converted import convert
from fine_tuned_models import write_fine_tuned, write_foreign
from known_models import random_model, randomise, small_config, write_model

from bert_keras import open_model
from bert_keras.commands import check_model, predict
from bert_keras.mistakes import Mistake
from bert_keras.modeling import ClassifierModel
from bert_keras.programs.model_check import comparison

pytestmark = pytest.mark.usefixtures("no_graphs")

LABELS = {"id2label": {"0": "bad", "1": "fair", "2": "good"}}


@pytest.fixture
def check(capsys):
    """Return a function of a folder and flags that runs the program and returns its output."""

    def run(folder, *flags):
        capsys.readouterr()
        check_model.main(["check_model.py", str(folder), *(flags or ("--nocompare",))])
        return capsys.readouterr().out

    return run


@pytest.fixture
def folder(tmp_path):
    return write_foreign(tmp_path / "model", "classification", **LABELS)


def write_tokenizer_config(folder, **values):
    file = folder / "tokenizer_config.json"
    before = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(before | values))


def facts_in(output):
    """Returns value and source of each fact, which two blanks or more separate."""
    lines = output.partition("Keys:")[0].splitlines()[1:]
    parts = [[part.strip() for part in line.strip().split("  ") if part.strip()] for line in lines]
    return {name: (value, source) for name, value, source in parts}


def test_each_fact_names_its_file_and_key(folder, check):
    write_tokenizer_config(
        folder,
        do_lower_case=True,
        model_max_length=24,
        model_input_names=["input_ids", "attention_mask"],
        tokenizer_class="BertTokenizerFast",
    )
    tokens = (folder / "vocab.txt").read_text().splitlines()
    (folder / "vocab.txt").write_text("\n".join(tokens[:-3]))
    facts = facts_in(check(folder))
    assert facts["vocabulary"] == (f"{len(tokens) - 3} tokens", "vocab.txt")
    assert facts["longest sequence"] == ("24 tokens", "tokenizer_config.json, model_max_length or max_len")
    assert facts["token types"] == ("all 0", "tokenizer_config.json, model_input_names or tokenizer_class")
    assert facts["tokenizer class"] == ("BertTokenizer", "tokenizer_config.json, tokenizer_class")
    assert facts["casing"] == ("lower case, no accents", "tokenizer_config.json, do_lower_case")
    assert facts["task"][0] == "classification"
    assert facts["labels"] == ("bad, fair, good", "config.json, id2label")
    assert facts["weights"][1] == "model.safetensors"


def test_keys_are_read_harmless_or_unknown(folder, check):
    write_tokenizer_config(folder, foo=1, use_fast=True, strip_accents=False)
    lines = check(folder).splitlines()
    place = lines.index("  tokenizer_config.json")
    kinds = {line.split()[0]: line for line in lines[place + 1 : place + 4]}
    assert "strip_accents" in kinds["read"]
    assert kinds["harmless"].split()[1:] == ["use_fast"]
    assert kinds["unknown"].split()[1:] == ["foo"]


def test_commands_are_those_of_the_task(folder, check):
    output = check(folder)
    for program in ("predict.py", "serve.py", "export_model.py", "run_classifier.py --do_train"):
        assert f"python {program}" in output


@pytest.mark.parametrize(
    ("head", "is_decoder", "task"),
    [("masked_lm", False, "fill_mask"), ("masked_lm", True, "score"), ("next_sentence", False, "next_sentence")],
)
def test_the_commands_of_a_head_of_pretraining_work(tmp_path, check, capsys, head, is_decoder, task):
    write_model(tmp_path / "model", random_model(num_hidden_layers=1, is_decoder=is_decoder))
    folder = convert(tmp_path / "model", tmp_path / "converted", head=head)
    output = check(folder)
    assert facts_in(output)["task"][0] == task
    [command] = [shlex.split(line) for line in output.replace("\\\n", "").splitlines() if "python predict.py" in line]
    predict.main([*command[1:], "--json"])
    assert capsys.readouterr().out.startswith("{")
    # Scores are computed in many passes, which no export does.
    assert ("export_model.py" in output) == (task != "score")


@pytest.mark.parametrize(
    ("architecture", "config", "argument"),
    [
        ("BertForSequenceClassification", {"problem_type": "multi_label_classification"}, "--kind=multi_label"),
        ("BertForMaskedLM", {}, '"your text with a [MASK]"'),
    ],
)
def test_commands_fit_the_model(tmp_path, check, architecture, config, argument):
    model = random_model(num_hidden_layers=1) if architecture == "BertForMaskedLM" else None
    output = check(write_foreign(tmp_path / "model", "classification", model, architecture, **LABELS, **config))
    assert argument in output
    assert output.endswith("Not compared: not wanted.\n")


def test_a_refusal_is_a_fact_and_a_status(folder, check, capsys):
    write_tokenizer_config(folder, truncation_side="left")
    with pytest.raises(SystemExit) as error:
        check(folder)
    output = capsys.readouterr().out
    assert error.value.code == 1
    assert "Refused:" in output
    assert 'truncation_side "left"' in output
    assert "  tokenizer_config.json" in output


def test_what_it_is_not_for(tmp_path, check, monkeypatch):
    model = randomise(ClassifierModel(small_config(num_hidden_layers=1), 2))
    own = write_fine_tuned(
        tmp_path / "run", model, "classification", labels=["a", "b"], max_seq_length=16, is_pair=False, doc_stride=None
    )
    with pytest.raises(Mistake, match="is a model of this project; this program checks folders of other libraries"):
        check(own)
    write_model(tmp_path / "pretrained", random_model(num_hidden_layers=1))
    with pytest.raises(Mistake, match="pretrained is a TensorFlow checkpoint; this program checks folders of other"):
        check(tmp_path / "pretrained")
    with pytest.raises(Mistake, match="give one folder"):
        check_model.main(["check_model.py"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(Mistake, match="compare needs torch, transformers; install it, or leave the flag out"):
        check(write_foreign(tmp_path / "foreign", "classification", **LABELS), "--compare")


def test_the_texts_are_those_that_the_page_promises():
    texts = comparison.read_texts()
    pairs = [text for text in texts if isinstance(text, tuple)]
    assert (len(texts) - len(pairs), len(pairs)) == (20, 15)
    assert sum(len(first) + len(second) > 500 for first, second in pairs) == 5


def test_whoever_opens_a_model_finds_the_facts_in_the_log_once(folder, messages):
    open_model(folder)(["he was", "so she"])
    [line] = [message for message in messages if "answers as in the library that made it" in message]
    assert "task classification (config.json, architectures and labels)" in line


@pytest.mark.slow  # loads PyTorch
@pytest.mark.filterwarnings("ignore")
def test_the_comparison_finds_the_text_that_differs(folder, check, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch, of the extra [peers], is not installed")
    pytest.importorskip("transformers", reason="transformers, of the extra [peers], is not installed")
    assert "  the same tokens\n" in check(folder, "--compare")
    cut = comparison.encode_pair
    monkeypatch.setattr(
        comparison,
        "encode_pair",
        lambda tokenizer, first, *rest: cut(tokenizer, first.replace("[SEP]", "x"), *rest),
    )
    with pytest.raises(Mistake, match="answers otherwise here"):
        check(folder, "--compare")
