"""DistilBERT, ELECTRA and ALBERT in the programs: fill in words, fine-tune, predict, export, convert and serve."""

import json
import shutil

import keras
import numpy as np
import pytest
from converted import convert
from known_models import TOKENS, plain_call, randomise, small_config
from rounding import assert_close
from tiny_classes import VOCABULARY, run, write_texts
from tiny_exports import FORMATS, converters_in_this_process, write_export, write_network
from tiny_squad import write_squad
from tiny_variants import SWITCHES
from tiny_web import runtime_package
from training_programs import run_classifier, run_ner, run_squad

from bert_keras.export.api import export_model
from bert_keras.export.checks.web_check import answers_in_node
from bert_keras.export.choices import PLACES
from bert_keras.modeling import PretrainingModel, open_checkpoint, save_safetensors, weights_by_name
from bert_keras.prediction import FeatureExtractor, FillMask, open_model
from bert_keras.tasks.graph.networks import IdsNetwork

TEXTS = ["he was hungry", "so she ate", "paris is the capital of france", "she walks"]


def write_pretrained(folder, model_type):
    """Writes a random model with a masked-LM head in the Hugging Face layout. Returns the folder and the model."""
    switches = SWITCHES[model_type] | {"max_position_embeddings": 40}
    model = randomise(PretrainingModel(small_config(**switches)))
    return write_folder(folder, model, TOKENS), model


def write_folder(folder, model, tokens):
    """Writes a model without its head of sentences as transformers would, with its vocabulary. Returns the folder."""
    kept = {name: weight for name, weight in weights_by_name(model).items() if "seq_relationship" not in name}
    save_safetensors(folder, kept, model.config)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return folder


@pytest.mark.parametrize("model_type", SWITCHES)
def test_words_are_filled_in_and_vectors_are_found(tmp_path, model_type):
    folder, model = write_pretrained(tmp_path, model_type)
    answers = FillMask(folder, top_k=3)(["paris is the [MASK] of france"])
    ids = [TOKENS.index(token) for token in ("[CLS]", "paris", "is", "the", "[MASK]", "of", "france", "[SEP]")]
    log_probs, _ = plain_call(model, ids, position=4)
    best = answers[0].masks[0][0]
    assert best.token == TOKENS[int(np.argmax(log_probs))]
    assert best.probability == pytest.approx(float(np.exp(log_probs.max())), abs=1e-5)
    found = FeatureExtractor(folder, [-1], max_seq_length=16)(["paris is"])[0]
    ids = np.array([[TOKENS.index(token) for token in ("[CLS]", "paris", "is", "[SEP]")]])
    assert_close(found.values[:, 0], model.bert(ids)["sequence_output"][0])


@pytest.mark.slow  # trains and converts
@pytest.mark.parametrize("model_type", SWITCHES)
@pytest.mark.usefixtures("no_graphs")
def test_a_classifier_is_trained_exported_and_served(tmp_path, model_type):
    pytest.importorskip("uvicorn", reason="needs the extra [serve]")
    import requests
    from running_server import serving

    from bert_keras.prediction.arguments import Limits
    from bert_keras.serving.versions import open_folders

    start, _ = write_pretrained(tmp_path / "start", model_type)
    rows = [f"{text}\t{('yes', 'no')[number % 2]}" for number, text in enumerate(TEXTS * 4)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    flags = [f"--train_file={tmp_path / 'train.tsv'}", f"--init_checkpoint={start}", "--train_batch_size=8"]
    flags += [f"--output_dir={tmp_path / 'run'}", "--max_seq_length=16", "--learning_rate=1e-3", "--layer_decay=0.9"]
    flags += ["--num_train_epochs=1"]
    run_classifier.main(["run_classifier.py", "--do_train", *flags])
    config = json.loads((tmp_path / "run" / "model" / "bert_config.json").read_text())
    assert {name: config[name] for name in SWITCHES[model_type]} == SWITCHES[model_type]
    names = open_checkpoint(tmp_path / "run" / "model").names
    assert ("bert/embeddings/token_type_embeddings" in names) == (model_type != "distilbert")
    assert ("bert/embeddings/projection/kernel" in names) == (model_type != "distilbert")
    assert ("bert/encoder/layer_1/output/dense/bias" in names) == (model_type != "albert")
    predictor = open_model(tmp_path / "run")
    expected = predictor(TEXTS)
    network = IdsNetwork(predictor.model, "classification")
    formats = FORMATS if model_type == "distilbert" else ["onnx"]  # each network has one more kind of layer
    write_network(network, write_export(tmp_path / "all", tmp_path / "run" / "model"), formats)
    folders = {"run": str(tmp_path / "run")}
    for name in formats:
        folders[name] = str(shutil.copytree(tmp_path / "all", tmp_path / name))
        (tmp_path / name / "export.json").write_text(json.dumps({"formats": {name: {"path": PLACES[name]}}}))
    folders["converted"] = str(convert(tmp_path / "run" / "model", tmp_path / "converted"))
    with serving(open_folders(folders, [], Limits())) as server:
        for name in folders:
            body = {"model": name, "items": [{"text": text} for text in TEXTS]}
            response = requests.post(f"{server.url}/v1/classify", json=body, timeout=60)
            assert response.status_code == 200, response.text
            for answer, each in zip(response.json()["answers"], expected, strict=True):
                assert answer["probabilities"] == pytest.approx(each.probabilities, rel=1e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", SWITCHES)
@pytest.mark.usefixtures("no_graphs")
def test_answers_and_tags_are_trained_and_converted(tmp_path, model_type):
    start, _ = write_pretrained(tmp_path / "start", model_type)
    question = {"id": "1", "question": "who was hungry", "answers": [{"text": "he", "answer_start": 0}]}
    data = write_squad(tmp_path / "train.json", [{"context": TEXTS[0], "qas": [question]}] * 4)
    shared = [f"--init_checkpoint={start}", "--do_train", "--train_batch_size=4", "--max_seq_length=24"]
    shared += ["--num_train_epochs=1"]
    run_squad.main(
        ["run_squad.py", f"--train_file={data}", f"--output_dir={tmp_path / 'squad'}", "--max_query_length=6", *shared]
    )
    (tmp_path / "train.txt").write_text("he O\nwalks O\nparis B-LOC\n\nlondon B-LOC\nis O\n\n" * 4)
    tagging = [f"--train_file={tmp_path / 'train.txt'}", f"--output_dir={tmp_path / 'ner'}"]
    run_ner.main(["run_ner.py", *tagging, *shared])
    for name, items in (("squad", [("who was hungry", TEXTS[0])]), ("ner", TEXTS)):
        copied = convert(tmp_path / name / "model", tmp_path / f"{name}_copy")
        has_pooler = any("pooler" in entry for entry in open_checkpoint(copied).names)
        assert has_pooler == (model_type == "albert")
        assert repr(open_model(copied)(items)) == repr(open_model(tmp_path / name)(items))


@pytest.mark.slow  # trains
def test_a_distilbert_learns_and_answers_in_a_web_page(tmp_path):
    """ELECTRA and ALBERT have embeddings of width 4 here, which learn too slowly for a test."""
    keras.utils.set_random_seed(1)
    model = PretrainingModel(small_config(vocab_size=len(VOCABULARY), **SWITCHES["distilbert"]))
    flags = {
        "init_checkpoint": write_folder(tmp_path / "start", model, VOCABULARY),
        "train_file": write_texts(tmp_path / "train.csv", 160, 1),
        "eval_file": write_texts(tmp_path / "dev.csv", 30, 2),
        "output_dir": tmp_path / "out",
        "max_seq_length": 12,
        "train_batch_size": 16,
        "learning_rate": 0.003,
        "num_train_epochs": 12,
    }
    metrics = run(flags, "do_train", "do_eval")
    assert metrics is not None
    assert metrics["accuracy"] == 1.0
    [live] = open_model(tmp_path / "out")(["the film was good"])
    runtime_package()
    with converters_in_this_process():
        export_model(tmp_path / "out", export_dir=tmp_path / "export", format=["web"], verbose=False)
    [found] = answers_in_node(tmp_path / "export" / "web", [{"text": "the film was good"}])
    assert found["label"] == live.label


@pytest.mark.parametrize("model_type", SWITCHES)
def test_two_configs_next_to_a_checkpoint_must_agree_in_the_switches(tmp_path, model_type):
    folder, _ = write_pretrained(tmp_path, model_type)
    config = open_checkpoint(folder).config
    config.to_json_file(folder / "bert_config.json")
    assert open_checkpoint(folder).config == config
    values = json.loads((folder / "bert_config.json").read_text())
    (folder / "bert_config.json").write_text(json.dumps(values | {"pooler_act": "linear"}))
    with pytest.raises(ValueError, match="disagree"):
        _ = open_checkpoint(folder).config
