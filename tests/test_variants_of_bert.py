"""DistilBERT, ELECTRA and ALBERT in the programs: fill in words, fine-tune, predict, export, convert and serve."""

import json
import shutil

import numpy as np
import pytest
from known_models import TOKENS, plain_call, randomise, small_config
from tiny_exports import write_export, write_network
from tiny_squad import write_squad
from tiny_variants import SWITCHES

import convert_checkpoint
import run_classifier
import run_ner
import run_squad
from bert_keras.export.formats.choices import PLACES
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.modeling import PretrainingModel, open_checkpoint, save_safetensors, weights_by_name
from bert_keras.prediction import FeatureExtractor, FillMask, open_model

TEXTS = ["he was hungry", "so she ate", "paris is the capital of france", "she walks"]


def write_pretrained(folder, model_type):
    """Writes a random model with a masked-LM head in the Hugging Face layout. Returns the folder and the model."""
    switches = SWITCHES[model_type] | {"max_position_embeddings": 40}
    model = randomise(PretrainingModel(small_config(**switches)))
    kept = {name: weight for name, weight in weights_by_name(model).items() if "seq_relationship" not in name}
    save_safetensors(folder, kept, model.config)
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    return folder, model


def convert(folder, output, format_):
    convert_checkpoint.main(["", f"--input={folder}", f"--output={output}", f"--format={format_}"])
    return output


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
    np.testing.assert_allclose(found.values[:, 0], model.bert(ids)["sequence_output"][0], atol=1e-5)


@pytest.mark.slow  # trains, and converts to every format
@pytest.mark.parametrize("model_type", SWITCHES)
def test_a_classifier_is_trained_exported_and_served(tmp_path, model_type):
    pytest.importorskip("uvicorn", reason="needs the extra [serve]")
    import requests
    from running_server import serving

    from bert_keras.prediction.arguments import Limits
    from bert_keras.serving.served_models import open_models

    start, _ = write_pretrained(tmp_path / "start", model_type)
    rows = [f"{text}\t{('yes', 'no')[number % 2]}" for number, text in enumerate(TEXTS * 4)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    flags = [f"--train_file={tmp_path / 'train.tsv'}", f"--init_checkpoint={start}", "--train_batch_size=8"]
    flags += [f"--output_dir={tmp_path / 'run'}", "--max_seq_length=16", "--learning_rate=1e-3", "--layer_decay=0.9"]
    run_classifier.main(["run_classifier.py", "--do_train", *flags])
    config = json.loads((tmp_path / "run" / "model" / "bert_config.json").read_text())
    assert {name: config[name] for name in SWITCHES[model_type]} == SWITCHES[model_type]
    predictor = open_model(tmp_path / "run")
    expected = predictor(TEXTS)
    network = IdsNetwork(predictor.model, "classification")
    write_network(network, write_export(tmp_path / "all", tmp_path / "run" / "model"))
    folders = {"run": str(tmp_path / "run")}
    for name, place in PLACES.items():
        folders[name] = str(shutil.copytree(tmp_path / "all", tmp_path / name))
        (tmp_path / name / "export.json").write_text(json.dumps({"formats": {name: {"path": place}}}))
    folders["converted"] = str(convert(tmp_path / "run" / "model", tmp_path / "converted", "safetensors"))
    with serving(open_models(folders, [], Limits())) as server:
        for name in folders:
            body = {"model": name, "items": [{"text": text} for text in TEXTS]}
            response = requests.post(f"{server.url}/v1/classify", json=body, timeout=60)
            assert response.status_code == 200, response.text
            for answer, each in zip(response.json()["answers"], expected, strict=True):
                assert answer["probabilities"] == pytest.approx(each.probabilities, rel=1e-4, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", SWITCHES)
def test_answers_and_tags_are_trained_and_converted(tmp_path, model_type):
    start, _ = write_pretrained(tmp_path / "start", model_type)
    question = {"id": "1", "question": "who was hungry", "answers": [{"text": "he", "answer_start": 0}]}
    data = write_squad(tmp_path / "train.json", [{"context": TEXTS[0], "qas": [question]}] * 4)
    shared = [f"--init_checkpoint={start}", "--do_train", "--train_batch_size=2", "--max_seq_length=24"]
    run_squad.main(
        ["run_squad.py", f"--train_file={data}", f"--output_dir={tmp_path / 'squad'}", "--max_query_length=6", *shared]
    )
    (tmp_path / "train.txt").write_text("he O\nwalks O\nparis B-LOC\n\nlondon B-LOC\nis O\n\n" * 4)
    tagging = [f"--train_file={tmp_path / 'train.txt'}", f"--output_dir={tmp_path / 'ner'}"]
    run_ner.main(["run_ner.py", *tagging, *shared])
    for name, items in (("squad", [("who was hungry", TEXTS[0])]), ("ner", TEXTS)):
        copied = convert(tmp_path / name / "model", tmp_path / f"{name}_copy", "safetensors")
        has_pooler = any("pooler" in entry for entry in open_checkpoint(copied).names)
        assert has_pooler == (model_type == "albert")
        assert repr(open_model(copied)(items)) == repr(open_model(tmp_path / name)(items))
