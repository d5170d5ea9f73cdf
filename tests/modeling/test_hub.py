"""Models on Hugging Face by name, from a server on this machine."""

import builtins
import json
import pathlib
import sys

import pytest
from converted import convert
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from http_servers import COMMIT, hugging_face
from known_models import random_model, write_model
from training_programs import run_classifier

from bert_keras import FillMask, FullTokenizer, open_checkpoint, open_model
from bert_keras.modeling.checkpoints import hub as module

pytestmark = pytest.mark.usefixtures("no_graphs")

constants = pytest.importorskip("huggingface_hub.constants")

CONFIG = {"model_type": "bert", "vocab_size": 40, "hidden_size": 16, "num_attention_heads": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model of the Hugging Face layout."""
    base = tmp_path_factory.mktemp("model")
    write_model(base / "tensorflow", random_model())
    return convert(base / "tensorflow", base / "safe")


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory):
    """A fine-tuned model of the Hugging Face layout, with its task.json."""
    base = tmp_path_factory.mktemp("fine_tuned")
    write_fine_tuned(base / "run", random_classifier(2), "classification", labels=["no", "yes"], **OF_TEXTS)
    return convert(base / "run", base / "safe")


@pytest.fixture
def server(monkeypatch, tmp_path, folder):
    """A server with the model, and an empty cache."""
    with hugging_face() as server:
        server.repositories["owner/model"] = contents(folder) | {
            "pytorch_model.bin": b"pickle",
            "tf_model.h5": b"weights",
            "onnx/model.safetensors": b"other",
            "README.md": b"text",
        }
        # What HF_ENDPOINT, HF_HUB_CACHE and HF_HUB_DISABLE_XET set in a new process.
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        template = server.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        module._download.cache_clear()
        yield server
        module._download.cache_clear()


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.mark.parametrize("name", ["hf://owner/model", "hf://owner/model/", f"hf://owner/model@{COMMIT}"])
def test_a_name_opens_the_model(server, folder, name, messages):
    checkpoint, same = open_checkpoint(name), open_checkpoint(folder)
    assert (checkpoint.names, checkpoint.config) == (same.names, same.config)
    assert all((checkpoint.read(entry) == same.read(entry)).all() for entry in same.names)
    assert sorted(server.downloaded) == ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]
    assert messages[-1].startswith(f"{name.rstrip('/')} is commit {COMMIT}, in ")


@pytest.mark.parametrize("revision", ["v1", "refs/pr/1"])
def test_a_revision_may_be_named(server, folder, revision):
    assert open_checkpoint(f"hf://owner/model@{revision}").names == open_checkpoint(folder).names


def test_predictors_take_a_name(server, folder, fine_tuned):
    text = ["paris is the [MASK] of france."]
    assert FillMask("hf://owner/model")(text) == FillMask(folder)(text)
    server.repositories["owner/tuned"] = contents(fine_tuned)
    assert open_model("hf://owner/tuned")(["he was hungry."]) == open_model(fine_tuned)(["he was hungry."])


def test_shards_are_downloaded(server, folder):
    files = contents(folder)
    weights = files.pop("model.safetensors")
    names = open_checkpoint(folder).names
    size = int.from_bytes(weights[:8], "little")
    keys = [key for key in json.loads(weights[8 : 8 + size]) if key != "__metadata__"]
    index = {"metadata": {}, "weight_map": dict.fromkeys(keys, "model-00001-of-00001.safetensors")}
    server.repositories["owner/shards"] = files | {
        "model-00001-of-00001.safetensors": weights,
        "model.safetensors.index.json": json.dumps(index).encode(),
    }
    assert open_checkpoint("hf://owner/shards").names == names


def test_the_network_is_asked_once_and_the_cache_works_without_it(server, folder, monkeypatch):
    open_checkpoint("hf://owner/model")
    num_requests = server.num_requests
    open_checkpoint("hf://owner/model")
    assert server.num_requests == num_requests
    module._download.cache_clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert open_checkpoint("hf://owner/model").names == open_checkpoint(folder).names
    assert server.num_requests == num_requests
    with pytest.raises(OSError, match="hf://owner/other is not complete in the cache and cannot be downloaded"):
        open_checkpoint("hf://owner/other")


def test_convert_checkpoint_takes_a_name(server, folder, fine_tuned, tmp_path):
    convert("hf://owner/model", tmp_path / "same")
    assert (tmp_path / "same" / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    server.repositories["owner/tuned"] = contents(fine_tuned)
    convert("hf://owner/tuned", tmp_path / "tuned")
    assert (tmp_path / "tuned" / "task.json").read_text() == (fine_tuned / "task.json").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_run_records_the_name_and_resumes(server, tmp_path):
    (tmp_path / "train.csv").write_text("text,label\n" + "he was hungry,yes\nparis is a capital,no\n" * 4)
    flags = [
        *("run_classifier.py", "--do_train", "--init_checkpoint=hf://owner/model", "--max_seq_length=16"),
        *(f"--train_file={tmp_path}/train.csv", f"--output_dir={tmp_path}/run", "--train_batch_size=4"),
    ]
    run_classifier.main([*flags, "--num_train_epochs=1"])
    config = json.loads((tmp_path / "run" / "run_config.json").read_text())
    assert config["settings"]["init_checkpoint"] == "hf://owner/model"
    module._download.cache_clear()
    run_classifier.main([*flags, "--num_train_epochs=1"])
    assert open_model(tmp_path / "run")(["he was hungry"])[0].label in ("yes", "no")


@pytest.mark.parametrize(
    ("name", "kind", "sentence"),
    [
        ("hf://model", ValueError, r"^hf://model is not the name of a model; give hf://owner/name or"),
        ("hf://owner/model/file", ValueError, "is not the name of a model"),
        ("hf://owner/none", FileNotFoundError, "^Hugging Face has no model owner/none; check the name; for a"),
        ("hf://owner/model@v2", FileNotFoundError, "the model owner/model has no revision v2; give a branch, a tag or"),
        ("hf://owner/gated", OSError, "cannot be downloaded: its owner must permit it: ask at https://hugg"),
        ("hf://owner/roberta", ValueError, r"config\.json is not a BERT config: model_type is 'roberta', but only"),
        ("hf://owner/empty", FileNotFoundError, r"hf://owner/empty has no config\.json, so it is not a model"),
        (
            "hf://owner/pickle",
            FileNotFoundError,
            r"^hf://owner/pickle has no model\.safetensors, .* can run any program; give a revision that has it, such "
            r"as hf://owner/pickle@refs/pr/1",
        ),
        (
            "hf://google/bert_uncased_L-2_H-128_A-2",
            FileNotFoundError,
            r"or download the original: convert_checkpoint\.py --download=uncased_L-2_H-128_A-2; give a revision",
        ),
    ],
)
def test_each_mistake_has_its_sentence(server, name, kind, sentence):
    config = json.dumps(CONFIG).encode()
    pickle = {"config.json": config, "vocab.txt": b"", "pytorch_model.bin": b"pickle"}
    server.gated.add("owner/gated")
    server.repositories |= {
        "owner/gated": pickle,
        "owner/pickle": pickle,
        "google/bert_uncased_L-2_H-128_A-2": pickle,
        "owner/empty": {"README.md": b"text"},
        "owner/roberta": {
            "config.json": json.dumps(CONFIG | {"model_type": "roberta"}).encode(),
            "model.safetensors": b"weights",
        },
    }
    with pytest.raises(kind, match=sentence):
        open_checkpoint(name)
    assert {"model.safetensors", "pytorch_model.bin"}.isdisjoint(server.downloaded)


def test_of_a_tokenizer_only_the_vocabulary_is_downloaded(server, folder):
    server.repositories["owner/without"] = {"config.json": b"{}"}
    tokenizer = FullTokenizer.from_checkpoint(f"hf://owner/model@{COMMIT}")
    assert set(server.downloaded) <= {"vocab.txt", "tokenizer_config.json", "tokenizer.json"}
    assert tokenizer.vocab == FullTokenizer.from_checkpoint(folder).vocab
    with pytest.raises(
        FileNotFoundError, match=r"^hf://owner/without has no vocab.txt, and no tokenizer.json .*; give the folder of a"
    ):
        FullTokenizer.from_checkpoint("hf://owner/without")
    with pytest.raises(FileNotFoundError, match=r"^Hugging Face has no model owner/other"):
        FullTokenizer.from_checkpoint("hf://owner/other")


def test_without_the_package_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name == "huggingface_hub":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "huggingface_hub")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"^hf://owner/any needs a package: pip install 'bert-keras\[hf\]'"):
        open_checkpoint("hf://owner/any")
