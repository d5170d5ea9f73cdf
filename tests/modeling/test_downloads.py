"""Released models: the table, downloads, and the message for a model that is not there."""

import os
import pathlib
import re

import pytest
import tiny_released
from tiny_released import NAME, zip_of

from bert_keras import FillMask, download_model, open_checkpoint, open_model, released_models
from bert_keras.modeling.released import find_released

pytestmark = pytest.mark.usefixtures("no_graphs")

FILES = ["bert_config.json", "bert_model.ckpt.data-00000-of-00001", "bert_model.ckpt.index", "vocab.txt"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files of the model, once."""
    with pytest.MonkeyPatch.context() as patch:
        tiny_released.add_model(patch, None)
        return tiny_released.write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def server(files, monkeypatch, tmp_path):
    """A server with the archive; the working directory is empty."""
    monkeypatch.chdir(tmp_path)
    with tiny_released.file_server(zip_of(files)) as server:
        tiny_released.add_model(monkeypatch, server.address)
        yield server


def test_the_table_is_that_of_the_original_repository():
    models = {model.name: model for model in released_models()}
    assert len(models) == 9 + 24
    host = "https://storage.googleapis.com/bert_models/"
    for name, place, hugging_face in [
        ("uncased_L-2_H-128_A-2", "2020_02_20/uncased_L-2_H-128_A-2.zip", "google/bert_uncased_L-2_H-128_A-2"),
        (
            "uncased_L-12_H-768_A-12_2020",
            "2020_02_20/uncased_L-12_H-768_A-12.zip",
            "google/bert_uncased_L-12_H-768_A-12",
        ),
        ("uncased_L-12_H-768_A-12", "2018_10_18/uncased_L-12_H-768_A-12.zip", "google-bert/bert-base-uncased"),
        ("cased_L-24_H-1024_A-16", "2018_10_18/cased_L-24_H-1024_A-16.zip", "google-bert/bert-large-cased"),
        (
            "wwm_cased_L-24_H-1024_A-16",
            "2019_05_30/wwm_cased_L-24_H-1024_A-16.zip",
            "google-bert/bert-large-cased-whole-word-masking",
        ),
        (
            "multi_cased_L-12_H-768_A-12",
            "2018_11_23/multi_cased_L-12_H-768_A-12.zip",
            "google-bert/bert-base-multilingual-cased",
        ),
        ("chinese_L-12_H-768_A-12", "2018_11_03/chinese_L-12_H-768_A-12.zip", "google-bert/bert-base-chinese"),
    ]:
        assert (models[name].address, models[name].hugging_face) == (host + place, hugging_face)
    cased = {name for name, model in models.items() if not model.do_lower_case}
    assert cased == {name for name in models if re.match("(wwm_|multi_)?cased", name)}
    assert {name for name, model in models.items() if not model.has_folder} == {
        name for name, model in models.items() if "/2020_02_20/" in model.address
    }
    for name, model in models.items():
        sizes = f"L-{model.num_hidden_layers}_H-{model.hidden_size}_A-{model.num_attention_heads}"
        assert name.removesuffix("_2020").endswith(sizes)
        assert model.address.endswith(f"/{name.removesuffix('_2020')}.zip")
    assert (models["uncased_L-12_H-768_A-12"].readable_size, find_released("large").readable_size) == (
        "440 MB",
        "1.34 GB",
    )


def test_the_page_has_the_table():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "guides" / "models.md").read_text(encoding="utf-8")
    rows = []
    for model in released_models():
        cells = [f"[{model.name}]({model.address})", model.readable_size, f"{model.num_parameters / 1e6:.1f} M"]
        # All miniatures are uncased. The page has only those with their own advice; the program lists the others.
        if model.advice == "To study depth and width.":
            continue
        if model.has_folder:
            cells += ["uncased" if model.do_lower_case else "cased", f"`{model.hugging_face}`", model.advice]
        else:
            cells.append(model.advice)
        rows.append("".join(f"| {cell} " for cell in cells) + "|")
    assert [line for line in page.splitlines() if line.startswith("| [")] == rows


@pytest.mark.parametrize("prefix", [f"{NAME}/", "", "other/"])
def test_a_download_is_a_folder_that_answers(server, files, prefix, messages):
    server.data, server.md5 = zip_of(files, prefix), None
    assert download_model("nano") == NAME
    assert os.listdir() == [NAME]
    assert sorted(os.listdir(NAME)) == FILES
    for name in FILES:
        assert (files / name).read_bytes() == pathlib.Path(NAME, name).read_bytes()
    (answer,) = FillMask(NAME)(["paris is the [MASK] of france."])
    assert len(answer.masks[0]) == 5
    assert messages[0] == f"downloading {server.address} (0 MB)"


def test_the_folder_and_the_folders_above_it_may_be_new(server, tmp_path):
    folder = tmp_path / "models" / "english"
    assert download_model(NAME, folder) == str(folder)
    assert os.listdir(tmp_path / "models") == ["english"]
    with pytest.raises(ValueError, match="english holds .*; nothing is overwritten"):
        download_model(NAME, folder)


def test_a_dropped_connection_leaves_nothing_and_the_same_call_succeeds(server, tmp_path):
    server.drops = [2000]
    with pytest.raises(ConnectionError, match="cannot be downloaded .retrieval incomplete: got only 2000 out of"):
        download_model(NAME)
    assert os.listdir(tmp_path) == []
    assert sorted(os.listdir(download_model(NAME))) == FILES


def test_an_archive_that_is_there_is_unpacked_and_kept(server, files, tmp_path):
    (tmp_path / "english.zip").write_bytes(zip_of(files))
    download_model(NAME, "english")
    assert sorted(os.listdir(tmp_path)) == ["english", "english.zip"]
    assert server.requests == []


def test_an_archive_of_the_user_is_kept_even_if_it_is_damaged(server, files, tmp_path):
    (tmp_path / "english.zip").write_bytes(zip_of(files)[:-100])
    with pytest.raises(ValueError, match=r"english\.zip is damaged"):
        download_model(NAME, "english")
    assert sorted(os.listdir(tmp_path)) == ["english.zip"]


@pytest.mark.parametrize("left_out", FILES)
def test_an_archive_without_a_file_leaves_nothing(server, files, left_out):
    server.data, server.md5 = zip_of(files, left_out=[left_out]), None
    with pytest.raises(ValueError, match=rf"{server.address} has no {re.escape(left_out)}, so it is not the released"):
        download_model(NAME)
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("file", "old", "new", "sentence"),
    [
        (
            "bert_config.json",
            '"num_hidden_layers": 1',
            '"num_hidden_layers": 2',
            ": num_hidden_layers in bert_config.json is 2, not 1",
        ),
        ("vocab.txt", "##s\n", "", ": vocab.txt has 39 tokens, but the model has 40 rows"),
        ("bert_model.ckpt.index", None, None, ": bert_model.ckpt"),
    ],
)
def test_an_archive_of_another_model_is_refused(server, files, tmp_path, file, old, new, sentence):
    other = tmp_path / "other"
    other.mkdir()
    for name in FILES:
        (other / name).write_bytes((files / name).read_bytes())
    text = (other / file).read_bytes()
    (other / file).write_bytes(text.replace(old.encode(), new.encode()) if old else text[: len(text) // 2])
    server.data, server.md5 = zip_of(other), None
    with pytest.raises(ValueError, match=rf"{server.address} is not the released model {NAME}{re.escape(sentence)}"):
        download_model(NAME, tmp_path / "model")
    assert os.listdir(tmp_path) == ["other"]


def test_an_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(ValueError, match='no released model is called "tinny"; did you mean "tiny"\\?'):
        download_model("tinny")


HOW = (
    "the folder {folder} does not exist; to download this released model (440 MB), run: python convert_checkpoint.py "
    "--download=uncased_L-12_H-768_A-12{output} (or download https://storage.googleapis.com/bert_models/2018_10_18/"
    "uncased_L-12_H-768_A-12.zip and unzip it; or give hf://google-bert/bert-base-uncased); the folder then holds "
    "bert_config.json, vocab.txt, bert_model.ckpt.index and bert_model.ckpt.data-00000-of-00001"
)


@pytest.mark.parametrize("open_it", [open_checkpoint, FillMask])
@pytest.mark.parametrize(
    ("path", "folder", "output"),
    [
        ("uncased_L-12_H-768_A-12", "uncased_L-12_H-768_A-12", ""),
        ("uncased_L-12_H-768_A-12/", "uncased_L-12_H-768_A-12", ""),
        ("uncased_L-12_H-768_A-12/bert_model.ckpt", "uncased_L-12_H-768_A-12", ""),
        ("base", "base", " --output=base"),
        ("bert-base-uncased", "bert-base-uncased", " --output=bert-base-uncased"),
        ("google-bert/bert-base-uncased", "google-bert/bert-base-uncased", " --output=google-bert/bert-base-uncased"),
        ("models/uncased_L-12_H-768_A-12", "models/uncased_L-12_H-768_A-12", " --output=models/{}"),
    ],
)
def test_a_released_model_that_is_not_there_is_explained(monkeypatch, tmp_path, open_it, path, folder, output):
    monkeypatch.chdir(tmp_path)
    output = output.format("uncased_L-12_H-768_A-12")
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(HOW.format(folder=folder, output=output))}$"):
        open_it(path)


def test_a_miniature_needs_its_own_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"A-2\.zip and unzip -d uncased_L-2_H-128_A-2 it; or"):
        open_checkpoint("uncased_L-2_H-128_A-2")


def test_any_other_model_that_is_not_there_is_explained(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sentence = (
        "the checkpoint models/mine (no models/mine.index) does not exist; the folder models does not exist; a model "
        "is a folder with bert_config.json, vocab.txt and bert_model.ckpt.*, or with config.json, vocab.txt and "
        "model.safetensors; convert_checkpoint.py --list shows models to download"
    )
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(sentence)}$"):
        open_checkpoint("models/mine")


def test_a_released_model_is_not_a_fine_tuned_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    sentence = (
        "uncased_L-12_H-768_A-12 does not exist; give the folder of a run that has trained; a released model is not "
        "fine-tuned: give it as init_checkpoint, or in Python to FillMask"
    )
    with pytest.raises(FileNotFoundError, match=f"^{re.escape(sentence)}$"):
        open_model("uncased_L-12_H-768_A-12")
