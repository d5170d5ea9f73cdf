"""The program from its command line to its files."""

import json
import shutil

import h5py
import numpy as np
import pytest
from known_models import random_model, write_model
from rounding import assert_close

from bert_keras.cli.flags import run_main
from bert_keras.commands import extract_features
from bert_keras.tasks.vectors.features import FeatureExtractor

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), random_model(seed=5))


@pytest.fixture
def extract(folder, tmp_path):
    """Return a function of a text, an output name and flags that runs the program and returns the output path."""

    def run(text, name, *flags, init_checkpoint=folder):
        (tmp_path / "texts.txt").write_bytes(text.encode() if isinstance(text, str) else text)
        extract_features.main(
            ["extract_features.py", f"--input_file={tmp_path / 'texts.txt'}", f"--output_file={tmp_path / name}"]
            + [f"--init_checkpoint={init_checkpoint}", "--max_seq_length=20", *flags]
        )
        return tmp_path / name

    return run


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


TEXT = "he was hungry ||| so he ate .\n\nparis\n" + "a b c d e f g h i j k l m n o p a b c\n"


def test_values_and_their_order_are_those_of_the_extractor(extract, folder, capsys):
    path = extract(TEXT, "out.jsonl", "--layers=-2,embeddings")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loaded 39 of 39 weights from" in captured.err
    assert "1 of 4 texts are longer than 20 tokens; tokens cut off their ends: 1" in captured.err
    assert f"wrote the vectors of 4 lines to {path}" in captured.err
    extractor = FeatureExtractor(folder, [-2, "embeddings"], max_seq_length=20)
    texts = [("he was hungry", "so he ate ."), "", "paris", TEXT.splitlines()[3]]
    for number, (line, features) in enumerate(zip(lines_of(path), extractor(texts), strict=True)):
        assert list(line) == ["linex_index", "features"]
        assert line["linex_index"] == number
        assert [token["token"] for token in line["features"]] == features.tokens
        for token, values in zip(line["features"], features.values, strict=True):
            assert [layer["index"] for layer in token["layers"]] == [-2, "embeddings"]
            assert_close([layer["values"] for layer in token["layers"]], values, atol=5e-7)


def test_all_formats_hold_the_same(extract, folder):
    # The flags of the original's commands, at their defaults.
    flags = [f"--vocab_file={folder / 'vocab.txt'}", f"--bert_config_file={folder / 'bert_config.json'}"]
    flags += ["--do_lower_case=True", "--use_tpu=False", "--num_tpu_cores=8", "--use_one_hot_embeddings=True"]
    flags += ["--layers=-1,0", "--pooling=mean", "--batch_size=2"]
    lines = lines_of(extract(TEXT, "out.jsonl", *flags))
    expected = [[layer["values"] for layer in line["layers"]] for line in lines]
    with np.load(extract(TEXT, "out.npz", *flags)) as arrays:
        assert_close(arrays["values"], expected, atol=5e-7)
        values = arrays["values"]
    with h5py.File(extract(TEXT, "out.bin", *flags, "--output_format=hdf5")) as file:
        np.testing.assert_array_equal(file["values"][:], values)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--layers=last"], '^layers is "last", and "last" is not a layer; give whole numbers'),
        (["--layers=-1", "--pooling=sum"], "pooling=sum: 'sum' is not one of none, cls, mean, max"),
        (["--layers=-1", "--use_tpu"], "^use_tpu: no TPU could be reached as 'local'"),
    ],
)
def test_mistakes_leave_nothing_behind(extract, tmp_path, flags, message):
    with pytest.raises(ValueError, match=message.replace("|", r"\|")):
        extract("he\n", "out.jsonl", *flags)
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_mistakes_in_the_input_are_found_before_the_model_is_opened(extract, capsys):
    with pytest.raises(ValueError, match="texts.txt is empty; give one text a line$"):
        extract("", "out.jsonl")
    assert "loaded" not in capsys.readouterr().err


def test_several_workers_are_refused(extract, monkeypatch):
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(ValueError, match="^the environment variable TF_CONFIG names 2 workers, but vectors are extr"):
        extract("he\n", "out.jsonl")


def test_the_output_is_checked_first(extract, tmp_path):
    (tmp_path / "sub").mkdir()
    with pytest.raises(ValueError, match=rf"^output_file={tmp_path}/sub is a folder; give the file to write, for"):
        extract("he\n", "sub")
    message = (
        rf"^output_file={tmp_path}/none/a.npz: the folder {tmp_path}/none does not exist; create it, or give another"
    )
    with pytest.raises(ValueError, match=message):
        extract("he\n", "none/a.npz")


def test_inputs_are_not_replaced(extract, folder, tmp_path, capsys):
    model = shutil.copytree(folder, tmp_path / "model")
    words = shutil.copyfile(folder / "vocab.txt", tmp_path / "words.txt")
    with pytest.raises(ValueError, match="texts.txt is also input_file, which would be lost; give another file$"):
        extract("he\n", "texts.txt")
    with pytest.raises(ValueError, match="words.txt is also vocab_file, which would be lost"):
        extract("he\n", "words.txt", f"--vocab_file={words}")
    assert "loaded" not in capsys.readouterr().err
    for path in sorted(model.iterdir()):
        setting = "vocab_file" if path.name == "vocab.txt" else "init_checkpoint"
        before = path.read_bytes()
        with pytest.raises(ValueError, match=f"^output_file={path} is also {setting}, which would be lost"):
            extract("he\n", f"model/{path.name}", init_checkpoint=model)
        assert path.read_bytes() == before


def test_a_small_model_gives_all_layers_by_default(extract, capsys):
    [line] = lines_of(extract("he\n", "out.jsonl"))
    assert [layer["index"] for layer in line["features"][0]["layers"]] == [-1, -2]
    assert "the model has 2 layers, so all of them are taken: -1, -2" in capsys.readouterr().err


def test_missing_flags_are_named():
    with pytest.raises(ValueError, match=r"^missing: input_file, output_file, init_checkpoint \(help"):
        extract_features.main(["extract_features.py"])


def test_a_mistake_is_one_line_of_standard_error(tmp_path, capsys):
    argv = ["/somewhere/extract_features.py", "--init_checkpoint=a", f"--output_file={tmp_path / 'a'}"]
    assert run_main(extract_features.main, [*argv, f"--input_file={tmp_path / 'none.txt'}"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"extract_features.py: {tmp_path / 'none.txt'} is not a file; give a text file, one text a line"
