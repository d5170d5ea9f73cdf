"""Export from flags to a folder, errors, and requests to TensorFlow Serving."""

import ast
import json
import os
import pathlib
import re
import shlex
import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import random_model, write_model
from rounding import assert_close, flat
from tiny_exports import converters_in_this_process, export_in_this_process, run_card, saved_models_in_this_process
from tiny_web import runtime_package

from bert_keras.cli.flags import run_main
from bert_keras.commands import export_model
from bert_keras.export import api
from bert_keras.export.checks.web_check import answers_in_node
from bert_keras.export.formats.web_runtime import VERSION
from bert_keras.prediction import FeatureExtractor, open_model
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.groups import values_of
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.finetuning.model_dir import note_model

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _lines_to_messages(monkeypatch):
    # The program would log only to the screen.
    monkeypatch.setattr(export_model, "open_console", lambda: None)


def export(flags):
    return export_model.main(["export_model.py", *flags.split()])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a classification run of run_classifier.py on single texts, and a pre-trained model."""
    folder = tmp_path_factory.mktemp("runs")
    run = write_fine_tuned(
        folder / "news",
        random_classifier(2, num_hidden_layers=1),
        "classification",
        labels=["no", "yes"],
        **OF_TEXTS,
        program="run_classifier",
    )
    (folder / "eval.csv").write_text("text,label\n" + "paris is the capital,yes\nhe was hungry,no\n" * 6)
    settings = ClassifierSettings(eval_file=str(folder / "eval.csv"), train_file=str(folder / "train.csv"))
    config = {"program": "run_classifier", "settings": values_of(settings), "facts": {}}
    (run / "run_config.json").write_text(json.dumps(config))
    note_model(RunDir(str(run), "run_classifier"))
    evaluation = {"step": 7, "metrics": {"accuracy": 0.75}, "baseline": {"accuracy": 0.5}}
    (run / "evaluation.json").write_text(json.dumps(evaluation))
    (run / "tries.tsv").write_text("seed\taccuracy\tstatus\n1\t0.75\tdone\n2\t0.5\tdone\n")
    write_model(folder / "pretrained", random_model())
    return folder


@pytest.fixture(scope="module")
def exported(runs):
    """An export in all formats, with its SavedModel checked in a new process, and the program's return value."""
    with pytest.MonkeyPatch.context() as patch, converters_in_this_process():
        patch.setattr(export_model, "open_console", lambda: None)
        written = export(f"--model_dir={runs}/news --export_dir={runs}/exported --format=saved_model,onnx,litert")
    return runs / "exported", written


@pytest.mark.slow
class TestExport:
    def test_the_files(self, exported, runs):
        folder, written = exported
        assert sorted(os.listdir(folder)) == sorted(
            ["1", "README.md", "bert_config.json", "export.json", "model.onnx", "model.tflite", "task.json"]
            + ["tokenizer_config.json", "vocab.txt"]
        )
        task, of_run = (json.loads((path / "task.json").read_text()) for path in (folder, runs / "news" / "model"))
        assert task == of_run
        assert json.loads((folder / "export.json").read_text()) == written
        formats = written["formats"]
        places = {name: entry["path"] for name, entry in formats.items()}
        assert places == {"saved_model": "1", "onnx": "model.onnx", "litert": "model.tflite"}
        compared = formats["saved_model"]["compared"]
        assert max(compared[name] for name in ("text", "distance", "live")) < 1e-5
        assert (compared["num_texts"], compared["num_other"]) == (10, 0)
        assert compared["num_live"] >= 4
        for name in ("onnx", "litert"):
            assert formats[name]["compared"]["distance"] < 1e-5
            assert formats[name]["bytes"] == os.path.getsize(folder / places[name])

    def test_its_card(self, exported):
        folder, _ = exported
        card = (folder / "README.md").read_text()
        assert card.startswith("# news\n\nA BERT that assigns a text to one of 2 classes: 1 layer of width 16, 2 hea")
        for told in (
            "Labels: no, yes.",
            "trained on `train.csv`, evaluated on `eval.csv`.",
            "| accuracy | 0.75 | 0.5 |",
            "Median accuracy of 2 seeds: 0.625, from 0.5 to 0.75; this model is the best of them.",
            "The model reads at most 16 tokens",
            "Text is lower-cased. The letters of the vocabulary are Latin (100 %)",
            "`run_classifier.py`, step 7: max_seq_length 128, learning_rate 5e-05, train_batch_size 32,",
            f"tensorflow {tf.__version__}, keras ",
        ):
            assert told in card

    def test_the_python_of_its_card_runs_without_this_project(self, exported):
        folder, _ = exported
        saved_model, onnx, litert = run_card(folder)
        expected = open_model(folder)("Paris is the capital of France.").probabilities
        found = re.search(r"'probabilities': <tf.Tensor: .*? numpy=\s*array\(\[\[(.*?)\]\]", saved_model, re.DOTALL)
        assert_close([float(number) for number in found[1].split(",")], list(expected.values()))
        for printed in (onnx, litert):
            assert flat(ast.literal_eval(printed)) == flat(expected)

    def test_a_pretrained_model(self, runs, tmp_path, messages):
        with converters_in_this_process():
            model = f"--init_checkpoint={runs}/pretrained --task=vectors --pooling=cls --layer=0 --max_seq_length=12"
            export(f"{model} --format=litert --export_dir={tmp_path}/out")
        settings = json.loads((tmp_path / "out" / "task.json").read_text())
        assert settings == {"task": "vectors", "max_seq_length": 12, "pooling": "cls", "layer": 0}
        found = FeatureExtractor(tmp_path / "out", [0], "cls", 12)("he was hungry").values
        expected = FeatureExtractor(runs / "pretrained", [0], "cls", 12)("he was hungry").values
        assert_close(found, expected)
        assert f"the export is in {tmp_path / 'out'}; its README.md shows how to call it" in messages


class TestQuantizing:
    @pytest.mark.slow  # converts a model twice
    def test_int8(self, runs, tmp_path, messages):
        with converters_in_this_process():
            written = export(f"--model_dir={runs}/news --export_dir={tmp_path}/out --format=litert --quantize=int8")
        [cost] = written["costs"]
        accuracy = re.search(r"; accuracy ([\d.]+) before, [\d.]+ now, on 12 evaluation examples$", cost)[1]
        answers = open_model(runs / "news")(["paris is the capital", "he was hungry"])
        correct = [answer.label == label for answer, label in zip(answers, ("yes", "no"), strict=True)]
        assert float(accuracy) == np.mean(correct)
        assert cost in messages
        assert f"- {cost}" in (tmp_path / "out" / "README.md").read_text()
        assert written["formats"]["litert"]["quantize"] == "int8"

    @pytest.mark.slow  # traces and writes two text models
    def test_bfloat16_and_other_data(self, runs, tmp_path):
        (tmp_path / "other.csv").write_text("text,label\nhe was hungry,no\nshe ate,no\nwalking,yes\n")
        with saved_models_in_this_process():
            model = f"--model_dir={runs}/news --eval_file={tmp_path}/other.csv"
            written = export(f"{model} --export_dir={tmp_path}/out --quantize=bfloat16")
        [cost] = written["costs"]
        assert "saved_model in bfloat16: " in cost
        assert cost.endswith("on 3 evaluation examples")
        compared = written["formats"]["saved_model"]["compared"]
        assert 1e-5 < compared["live"] < 0.2
        assert compared["tolerance"] == 0.05


@pytest.mark.slow  # starts Node
def test_a_web_page_has_8_bits(runs, tmp_path, messages):
    runtime_package()
    with converters_in_this_process():
        written = export(f"--model_dir={runs}/news --export_dir={tmp_path}/out --format=web")
    [cost] = written["costs"]
    assert re.search(r"^web in int8: .*; accuracy [\d.]+ before, [\d.]+ now, on 12 evaluation examples$", cost)
    entry = written["formats"]["web"]
    assert (entry["quantize"], entry["compared"]["num_texts"]) == ("int8", 10)
    assert entry["compared"]["answers"] < 1e-4
    assert written["versions"]["onnxruntime-web"] == VERSION
    assert "python -m http.server" in (tmp_path / "out" / "README.md").read_text()
    texts = ["paris is the capital", "he was hungry"]
    found = answers_in_node(tmp_path / "out" / "web", [{"text": text} for text in texts])
    for answer, in_8_bits, live in zip(
        found, open_model(tmp_path / "out")(texts), open_model(runs / "news")(texts), strict=True
    ):
        # Padding changes the scales of the activations, so Python's answer in 8 bits is not quite the same.
        assert answer["probabilities"] == pytest.approx(in_8_bits.probabilities, abs=0.05)
        assert answer["probabilities"] != pytest.approx(live.probabilities, abs=1e-6)


PRETRAINED = "--export_dir=OUT --init_checkpoint=DIR/pretrained"
NEWS = "--export_dir=OUT --model_dir=DIR/news"


class TestMistakes:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ("", "missing: --export_dir (--help says what each is for)"),
            ("--export_dir=OUT", "missing: --model_dir, or --init_checkpoint and --task (--help says what each is"),
            (PRETRAINED, "missing: --task (--help says what each is for)"),
            (
                "--export_dir=OUT --init_checkpoint=DIR/news",
                "--init_checkpoint=DIR/news is a fine-tuned model; give it as --model_dir",
            ),
            (
                f"{PRETRAINED} --model_dir=DIR/news",
                "there are both --model_dir and --init_checkpoint; give one of them",
            ),
            (
                f"{NEWS} --task=vectors --top_k=3",
                "--top_k: the model sets this itself; leave it out",
            ),
            (
                "--export_dir=OUT --model_dir=DIR/export",
                "--model_dir=DIR/export is an export already; give the run that",
            ),
            (
                f"{PRETRAINED} --task=vectors --top_k=3",
                "--top_k is for --task=fill_mask; leave it out for --task=vectors",
            ),
            (
                f"{PRETRAINED} --task=vectors --layer=1,2",
                "--layer=1,2 has 2 layers; an export has one, so give one",
            ),
            (f"{PRETRAINED} --task=vectors --layer=7", "the model has no layer 7: its 2 layers are 0 to 1"),
            (
                f"{PRETRAINED} --task=vectors --eval_file=x",
                "--eval_file is for fine-tuned models, which have a metric; leave it out",
            ),
            (
                f"{PRETRAINED} --task=fill_mask --max_seq_length=99",
                "--max_seq_length=99 is more than the 40 tokens that the model takes; give less",
            ),
            ("--export_dir=DIR/news --model_dir=DIR/news", "--export_dir=DIR/news holds evaluation.json, model, "),
            (
                f"{NEWS} --eval_file=DIR/eval.csv",
                "--eval_file is for the cost of --quantize; leave it out, or give --quantize",
            ),
            (
                f"{NEWS} --max_loss=0.1",
                "--max_loss is for the cost of --quantize; leave it out, or give --quantize",
            ),
            (
                f"{PRETRAINED} --task=fill_mask --max_loss=0.1 --quantize=bfloat16",
                "--max_loss is for fine-tuned models, which have a metric; leave it out",
            ),
            (
                f"{NEWS} --format=onnx --check_file=DIR/eval.csv",
                "--check_file has texts, and only a SavedModel takes text; leave it out",
            ),
            (
                f"{NEWS} --eval_file=DIR/none.csv --quantize=bfloat16",
                "--eval_file=DIR/none.csv does not exist; give the path",
            ),
            (f"{NEWS} --onnxruntime_web=x", "--onnxruntime_web is for --format=web; leave it out"),
            (
                f"{NEWS} --format=web --quantize=bfloat16",
                "--quantize=bfloat16 works only with saved_model, but --format",
            ),
            (
                f"{NEWS} --format=web --quantize=float32 --eval_file=DIR/eval.csv",
                "--eval_file is for the cost of --quantize; leave it out, or give --quantize",
            ),
            (
                f"{NEWS} --format=web",
                "--format=web needs tf2onnx, which is not installed: pip install 'bert-keras[onnx]'",
            ),
            (f"{NEWS} --format=saved_model,onnx", "--format=onnx needs tf2onnx, which is not installed: pip install"),
        ],
    )
    def test_flags_that_do_not_go_together(self, runs, tmp_path, monkeypatch, flags, message):
        (runs / "export").mkdir(exist_ok=True)
        (runs / "export" / "export.json").write_text("{}")
        places = {"DIR": str(runs), "OUT": str(tmp_path / "out")}
        flags, message = (re.sub("DIR|OUT", lambda match: places[match[0]], text) for text in (flags, message))
        # These checks run before the program loads a fine-tuned model.
        monkeypatch.setattr(api, "open_model", None)
        monkeypatch.setitem(sys.modules, "tf2onnx", None)
        with pytest.raises((ValueError, FileNotFoundError), match="^" + re.escape(message.replace("--", ""))):
            export(flags)
        assert os.listdir(tmp_path) == []

    def test_a_mistake_is_one_line(self, tmp_path, capsys):
        assert run_main(export_model.main, ["export_model.py", f"--export_dir={tmp_path / 'out'}"]) == 1
        said = "export_model.py: missing: --model_dir, or --init_checkpoint and --task (--help says what each is for)\n"
        assert capsys.readouterr().err == said
        assert os.listdir(tmp_path) == []

    @pytest.mark.slow  # two exports in int8; tests/export/test_quantization_cost.py measures without them
    def test_a_model_without_its_run_is_measured_on_a_file_or_on_sample_texts(self, runs, tmp_path):
        pytest.importorskip("tf2onnx")
        copy = shutil.copytree(runs / "news" / "model", tmp_path / "copy" / "model")
        labels = json.loads((copy / "task.json").read_text())["labels"]
        (tmp_path / "eval.tsv").write_text("text\tlabel\n" + "".join(f"he ate so\t{label}\n" for label in labels))
        flags = f"--model_dir={copy} --format=onnx --quantize=int8"
        [told] = export_in_this_process(*flags.split(), f"--export_dir={tmp_path}/out")["costs"]
        assert re.search(
            r"the largest change of a number is [\d.e-]+ for \d+ sample texts, whose numbers are from", told
        )
        flags += f" --export_dir={tmp_path}/measured --eval_file={tmp_path}/eval.tsv"
        [told] = export_in_this_process(*flags.split())["costs"]
        assert re.search(rf"accuracy [\d.]+ before, [\d.]+ now, on {len(labels)} evaluation examples", told)

    def test_an_interrupted_export_leaves_nothing(self, runs, tmp_path, monkeypatch):
        def interrupt(source, folder, formats, quantize, max_loss, check_texts, web_package):
            source.write_model_files(folder)
            assert (formats, quantize, check_texts["text"].tolist()) == (("saved_model",), None, [b"he ate", b"so"])
            raise KeyboardInterrupt

        monkeypatch.setattr(api, "write_export", interrupt)
        texts = tmp_path / "texts.txt"
        texts.write_text("he ate\nso\n")
        with pytest.raises(KeyboardInterrupt):
            export(f"--model_dir={runs}/news --export_dir={tmp_path}/out --check_file={texts}")
        assert os.listdir(tmp_path) == ["texts.txt"]


def serve(signatures, request):
    """Returns the response to a request, both JSON values, by the rules of TensorFlow Serving's REST API."""
    [(form, values)] = request.items()
    if form == "inputs":
        columns = values
    elif isinstance(values[0], dict):
        columns = {name: [row[name] for row in values] for name in values[0]}
    else:
        columns = {"text": values}  # bare values need a single input
    outputs = signatures["serving_default"](**{name: tf.constant(value) for name, value in columns.items()})
    columns = {
        name: json.loads(json.dumps(value.numpy().tolist(), default=bytes.decode)) for name, value in outputs.items()
    }
    if form == "inputs":
        return {"outputs": columns}
    return {"predictions": [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]}


def shape_of(value):
    """Returns the structure of a JSON value: keys and types, with the first entry of each list."""
    if isinstance(value, dict):
        return {name: shape_of(part) for name, part in value.items()}
    return [shape_of(value[0])] if isinstance(value, list) else type(value)


def serving_calls(page):
    """Returns each TensorFlow Serving request of a page with the response shown after it."""
    text = page.read_text(encoding="utf-8")
    commands = re.findall(r"^curl (.*?)^```$.*?^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for command, response in commands:
        words = shlex.split(command.replace("\\\n", " "))
        assert (words[0], words[-1].rpartition(":")[2]) == ("-d", "predict")
        yield json.loads(words[1]), json.loads(response)


@pytest.fixture(scope="module")
def signatures(exported):
    return tf.saved_model.load(str(exported[0] / "1"), tags=["serve"]).signatures


@pytest.mark.slow
class TestServing:
    def test_ids_that_the_model_does_not_support(self, signatures):
        ids = tf.ones([2, 41], tf.int32)
        message = "input_ids is longer than the 40 tokens that the model"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            signatures["ids"](input_ids=ids, input_mask=ids, segment_ids=ids)
        with pytest.raises(tf.errors.InvalidArgumentError, match="segment_ids and input_ids differ in shape"):
            signatures["ids"](input_ids=ids[:, :4], input_mask=ids[:, :4], segment_ids=ids[:1, :4])

    def test_the_requests_of_the_docs(self, signatures):
        [(request, response)] = serving_calls(ROOT / "docs" / "guides" / "export.md")
        found = serve(signatures, request)
        assert shape_of(found) == shape_of(response)
        assert len(found["predictions"]) == len(response["predictions"]) == len(request["instances"])
        # The page says that columns have the same numbers.
        columns = serve(signatures, {"inputs": {"text": request["instances"]}})["outputs"]
        assert columns == {name: [row[name] for row in found["predictions"]] for name in found["predictions"][0]}

    def test_the_request_of_a_model_card(self, signatures, exported):
        [(request, response)] = serving_calls(exported[0] / "README.md")
        [found], [shown] = serve(signatures, request)["predictions"], response["predictions"]
        assert found.pop("probabilities") == pytest.approx(shown.pop("probabilities"), abs=6e-5)
        assert found == shown
