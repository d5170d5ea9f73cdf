"""Variants of BERT learn from a folder of the Hugging Face layout, and exports answer like the runs."""

import json
import shutil

import keras
import pytest
from known_models import TOKENS, small_config
from tiny_classes import VOCABULARY, run, texts, write_texts
from tiny_exports import converters_in_this_process, saved_models_in_this_process
from tiny_variants import SWITCHES

from bert_keras.export.api import export_model
from bert_keras.modeling import PretrainingModel, open_checkpoint, save_safetensors, weights_by_name
from bert_keras.prediction import open_model

FAMILIES = list(SWITCHES)


def write_folder(folder, model, tokens):
    """Writes a model without its heads of sentences as transformers would, with its vocabulary. Returns the folder."""
    weights = {name: weight for name, weight in weights_by_name(model).items() if "seq_relationship" not in name}
    save_safetensors(folder, weights, model.config)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return folder


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def start(family, tmp_path_factory):
    """The folder of a model with initial weights."""
    keras.utils.set_random_seed(1)
    model = PretrainingModel(small_config(**SWITCHES[family]))
    return write_folder(tmp_path_factory.mktemp("start") / family, model, TOKENS)


@pytest.fixture(scope="module")
def trained(family, tmp_path_factory):
    """The folder of a classifier that run_classifier.py trained, and its metrics."""
    folder = tmp_path_factory.mktemp("trained")
    keras.utils.set_random_seed(1)
    config = small_config(vocab_size=len(VOCABULARY), **SWITCHES[family])
    flags = {
        "init_checkpoint": write_folder(folder / "start", PretrainingModel(config), VOCABULARY),
        "train_file": write_texts(folder / "train.csv", 160, 1),
        "eval_file": write_texts(folder / "dev.csv", 30, 2),
        "output_dir": folder / "out",
        "max_seq_length": 12,
        "train_batch_size": 16,
        "learning_rate": 0.003,
        "num_train_epochs": 12,
    }
    return folder / "out", run(flags, "do_train", "do_eval")


@pytest.mark.slow
class TestAClassifier:
    def test_it_learns(self, trained, family):
        if family != "distilbert":
            pytest.skip("embeddings of width 4 learn too slowly for a test")
        folder, metrics = trained
        assert metrics["accuracy"] == 1.0
        answers = open_model(folder)([text for text, _ in texts(9, 7)])
        assert [answer.label for answer in answers] == [label for _, label in texts(9, 7)]

    def test_its_checkpoint_has_only_the_weights_of_the_variant(self, trained, family):
        names = open_checkpoint(trained[0] / "model").names
        assert ("bert/embeddings/token_type_embeddings" in names) == (family != "distilbert")
        assert ("bert/embeddings/projection/kernel" in names) == (family != "distilbert")
        assert ("bert/encoder/layer_1/output/dense/bias" in names) == (family != "albert")
        values = json.loads((trained[0] / "model" / "bert_config.json").read_text())
        assert values.get("has_shared_layers", False) == (family == "albert")

    def test_every_format_answers_like_the_run(self, trained, tmp_path):
        folder = trained[0]
        with converters_in_this_process(), saved_models_in_this_process():
            export_model(folder, export_dir=tmp_path / "out", format=["saved_model", "onnx", "litert"], verbose=False)
        asked = [text for text, _ in texts(5, 8)]
        expected = open_model(folder)(asked)
        for name in ("saved_model", "onnx", "litert"):
            for found, each in zip(open_model(tmp_path / "out", format=name)(asked), expected, strict=True):
                assert found.probabilities == pytest.approx(each.probabilities, abs=1e-5)

    def test_a_web_page_answers_like_the_run(self, trained, family, tmp_path):
        if family != "distilbert":
            pytest.skip("the scores of a model that learned little vary less than the errors of 8 bits")
        from tiny_web import runtime_package

        from bert_keras.export.checks.web_check import answers_in_node

        runtime_package()
        with converters_in_this_process():
            written = export_model(trained[0], export_dir=tmp_path / "out", format=["web"], verbose=False)
        assert written is not None
        [found] = answers_in_node(tmp_path / "out" / "web", [{"text": "the film was good"}])
        [live] = open_model(trained[0])(["the film was good"])
        assert found["label"] == live.label


def test_two_configs_next_to_a_checkpoint_must_agree_in_the_switches(start, tmp_path):
    both = shutil.copytree(start, tmp_path / "both")
    config = open_checkpoint(both).config
    config.to_json_file(both / "bert_config.json")
    assert open_checkpoint(both).config == config
    values = json.loads((both / "bert_config.json").read_text())
    (both / "bert_config.json").write_text(json.dumps(values | {"pooler_act": "linear"}))
    with pytest.raises(ValueError, match="disagree"):
        _ = open_checkpoint(both).config
