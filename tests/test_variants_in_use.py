"""DistilBERT, ELECTRA and ALBERT from a folder of the Hugging Face layout: fine-tuned, asked, exported and served."""

import json
import shutil

import keras
import numpy as np
import pytest
from known_models import TOKENS, random_model, small_config, with_random_weights
from tiny_classes import VOCABULARY, run, texts, write_texts
from tiny_exports import converters_in_this_process, saved_models_in_this_process
from tiny_variants import SWITCHES

import convert_checkpoint
from bert_keras import train_ner, train_squad
from bert_keras.export.api import export_model
from bert_keras.modeling import BertModel, PretrainingModel, open_checkpoint, save_safetensors, weights_by_name
from bert_keras.prediction import FeatureExtractor, FillMask, open_model

FAMILIES = list(SWITCHES)
SHORT = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 0.005, "verbose": False}


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
def pretrained(family, tmp_path_factory):
    """A masked-LM model with random weights, and its folder."""
    model = random_model(seed=3, **SWITCHES[family])
    return model, write_folder(tmp_path_factory.mktemp("pretrained") / family, model, TOKENS)


@pytest.fixture(scope="module")
def start(family, tmp_path_factory):
    """The folder of a model with initial weights."""
    keras.utils.set_random_seed(1)
    model = PretrainingModel(small_config(**SWITCHES[family]))
    return write_folder(tmp_path_factory.mktemp("start") / family, model, TOKENS)


def converted(folder, copy, family):
    """Converts the model of a run to the Hugging Face layout. Returns the new folder."""
    convert_checkpoint.main(["", f"--input={folder}", f"--output={copy}", "--format=safetensors"])
    has_pooler = any("/pooler/" in name for name in open_checkpoint(copy).names)
    assert has_pooler == (family == "albert")
    return copy


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


def test_masks_are_filled_and_vectors_made(pretrained):
    model, folder = pretrained
    ids = np.array([[TOKENS.index(token) for token in ("[CLS]", "he", "[MASK]", "hungry", "[SEP]")]], np.int32)
    logits = model({"input_ids": ids, "masked_lm_positions": np.array([[2]], np.int32)})["masked_lm_logits"][0, 0]
    [[guess]] = FillMask(folder, top_k=1)("he [MASK] hungry").masks
    assert guess.token == TOKENS[int(np.argmax(logits))]
    found = FeatureExtractor(folder, [-1], "cls", 12)("he was hungry").values
    ids[0, 2] = TOKENS.index("was")
    np.testing.assert_allclose(found, model.bert(ids)["sequence_output"][:, 0], atol=1e-5)


@pytest.mark.slow
class TestAClassifier:
    def test_it_learns(self, trained):
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

    def test_a_server_answers_like_the_run(self, trained):
        pytest.importorskip("uvicorn", reason="needs the extra [serve]")
        import requests
        from running_server import serving

        from bert_keras.prediction.arguments import Limits
        from bert_keras.serving.served_models import open_models

        asked = [text for text, _ in texts(3, 9)]
        expected = open_model(trained[0])(asked)
        with serving(open_models({"m": str(trained[0])}, [], Limits())) as server:
            answers = requests.post(f"{server.url}/v1/classify", json={"items": asked}, timeout=60).json()["answers"]
        for answer, each in zip(answers, expected, strict=True):
            assert answer["probabilities"] == pytest.approx(each.probabilities, abs=1e-5)

    def test_a_web_page_answers_like_the_run(self, trained, tmp_path):
        from tiny_web import runtime_package

        from bert_keras.export.checks.web_check import answers_in_node

        runtime_package()
        with converters_in_this_process():
            written = export_model(trained[0], export_dir=tmp_path / "out", format=["web"], verbose=False)
        assert written is not None
        [found] = answers_in_node(tmp_path / "out" / "web", [{"text": "the film was good"}])
        [live] = open_model(trained[0])(["the film was good"])
        assert found["label"] == live.label


@pytest.mark.slow
class TestTasksOfTokens:
    """DistilBERT and ELECTRA have no pooler in the files of these tasks in the Hugging Face layout."""

    def test_words_get_tags(self, start, family, tmp_path):
        rows = [(["he", "was", "hungry"], ["B-PER", "O", "O"]), (["paris", "is", "so"], ["O", "O", "O"])] * 4
        made = train_ner(rows, rows, output_dir=tmp_path / "out", init_checkpoint=start, max_steps=100, **SHORT)
        assert made.metrics["f1"] == 1.0
        for folder in (tmp_path / "out", converted(tmp_path / "out" / "model", tmp_path / "copy", family)):
            [entity] = open_model(folder)("he was hungry").entities
            assert (entity.text, entity.type) == ("he", "PER")

    def test_questions_get_answers(self, start, family, tmp_path):
        rows = [
            {"context": f"{who} walking {where}", "question": f"{word} is", "answer": answer}
            for who in ("he", "she")
            for where in ("paris", "london")
            for word, answer in (("the", who), ("capital", where))
        ]
        options = SHORT | {"doc_stride": 4, "max_query_length": 4, "max_steps": 200}
        made = train_squad(rows, rows, output_dir=tmp_path / "out", init_checkpoint=start, **options)
        assert made.metrics["exact_match"] == 100
        for folder in (tmp_path / "out", converted(tmp_path / "out" / "model", tmp_path / "copy", family)):
            assert open_model(folder)(("capital is", "he walking paris")).text == "paris"


def test_a_run_keeps_its_own_copy_of_the_config(pretrained, family, tmp_path):
    """Two configs next to one checkpoint must agree, also in the switches."""
    model, folder = pretrained
    both = shutil.copytree(folder, tmp_path / "both")
    model.config.to_json_file(both / "bert_config.json")
    assert open_checkpoint(both).config == model.config
    values = json.loads((both / "bert_config.json").read_text())
    (both / "bert_config.json").write_text(json.dumps(values | {"pooler_act": "linear"}))
    with pytest.raises(ValueError, match="disagree"):
        _ = open_checkpoint(both).config


def test_dropout_of_shared_layers_takes_a_list_as_its_seed():
    model = with_random_weights(BertModel(small_config(**SWITCHES["albert"])))
    ids = np.array([[2, 8, 9, 3]], np.int32)
    outputs = [model(ids, dropout_seed=seed)["sequence_output"] for seed in ([1, 2], np.array([1, 2], np.int32))]
    np.testing.assert_array_equal(*outputs)
    assert np.abs(outputs[0] - model(ids)["sequence_output"]).max() > 1e-3
