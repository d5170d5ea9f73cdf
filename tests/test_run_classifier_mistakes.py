"""User errors: one message that says what is needed, before any training."""

import re
import shutil
import sys

import pytest
from tiny_classes import VOCABULARY, run, write_mrpc, write_start, write_texts


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_start(tmp_path_factory.mktemp("start"))


@pytest.fixture(scope="module")
def files(tmp_path_factory, start):
    """The flags of a short run."""
    folder = tmp_path_factory.mktemp("data")
    return {
        "init_checkpoint": start,
        "train_file": write_texts(folder / "train.csv", 160, 1),
        "eval_file": write_texts(folder / "dev.csv", 30, 2),
        "max_seq_length": 12,
        "train_batch_size": 16,
    }


@pytest.fixture
def mrpc(tmp_path):
    return write_mrpc(tmp_path / "MRPC")


@pytest.mark.parametrize(
    ("actions", "changes", "message"),
    [
        ([], {}, "^nothing to do: give one or more of --do_train, --do_eval, --do_predict$"),
        (["do_train"], {"train_file": None, "eval_file": None}, "^no data given; give --task_name and --data_dir,"),
        (["do_train"], {"train_file": None}, "^--do_train needs --train_file$"),
        (["do_train", "do_predict"], {}, "^--do_predict needs --predict_file$"),
        (
            ["do_train", "do_eval"],
            {"eval_file": None},
            "^--do_eval needs --eval_file, or --eval_share of --train_file to hold out$",
        ),
        (["do_train"], {"task_name": "mrpc"}, "^--task_name and --train_file both name the data; give"),
        (["do_train"], {"tfds": "glue/mrpc"}, "^--tfds and --train_file both name the data; give --task_name"),
        (["do_train"], {"max_seq_length": 25}, "^--max_seq_length=25 is more than the 24 positions that the model has"),
        (["do_train"], {"train_file": "none.csv"}, '^there is no file ".*none.csv"; check the path'),
        (["do_train"], {"init_checkpoint": "none"}, "^there is no checkpoint .*none "),
        (["do_train"], {"init_checkpoint": None}, "^missing: --init_checkpoint, the model to start from"),
        (["do_train"], {"output_dir": None}, "^missing: --output_dir"),
        (
            ["do_train"],
            {"text_column": "body"},
            r'train.csv has no column "body"; its columns are text, label \(without',
        ),
        (
            ["do_train", "do_eval"],
            {"metric": "f1_micro"},
            "^--metric=f1_micro is not one of the metrics of such data: accuracy, f1, f1_macro",
        ),
        (
            ["do_train"],
            {"class_weights": "1,2,3"},
            '^--class_weights=1,2,3 is neither "balanced" nor 2 numbers, one fo',
        ),
        (["do_train"], {"class_weights": "1,x"}, '^--class_weights=1,x is neither "balanced" nor 2 numbers, one for e'),
        (["do_train"], {"class_weights": "0,0"}, "^--class_weights=0,0 gives every label the weight 0"),
        (
            ["do_train"],
            {"text_column": "text", "label_column": "text"},
            'train.csv: the column "text" is both the text and the label; give each',
        ),
        (
            ["do_train"],
            {"has_header": "false"},
            "^--has_header=false needs --text_column and --label_column, the numbers",
        ),
        (["do_train"], {"kind": "several"}, "--kind=several: value should be one of <single_label|regression|multi_"),
        (["do_train"], {"data_dir": "x"}, "^--data_dir does not apply to your own files; leave it out$"),
        (["do_train", "do_eval"], {"eval_share": 0.2}, "^--eval_share and --eval_file both say what to evaluate on;"),
        (
            ["do_train"],
            {"eval_share": 0.001},
            "^--eval_share=0.001 of 160 examples leaves 160 to train and 0 to evaluate on; give another share",
        ),
        (["do_eval"], {}, "^the labels are not known: give the --output_dir of a run that has trained, or train with"),
        (["do_train"], {"num_train_epochs": 0.01}, "give no training step; give a smaller batch, more epochs"),
    ],
)
def test_mistakes_in_the_flags_are_one_sentence(files, tmp_path, actions, changes, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if changes.get("eval_share") == 0.001:
        changes = {**changes, "eval_file": None}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run({**files, "output_dir": tmp_path / "out"}, *actions, **changes)
    assert not list(tmp_path.glob("out/*ckpt*"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"task_name": "mrcp"},
            '^there is no task "mrcp"; the tasks are cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-mm,',
        ),
        ({"data_dir": None}, "^--task_name=mrpc needs --data_dir, the folder with its files$"),
        (
            {"data_dir": "none"},
            '^there is no ".*none/train.tsv"; the task mrpc needs the files train.tsv, dev.tsv, test',
        ),
        ({"task_name": "ax"}, "^the task ax has no train file, only test; leave this step out$"),
        ({"text_column": "a"}, "^--text_column does not apply to the data of --task_name; leave it out$"),
        ({"eval_share": 0.1}, "^--eval_share does not apply to the data of --task_name; leave it out$"),
        ({"metric": "spearman"}, "^--metric=spearman is not one of the metrics of such data: accuracy, f1, f1_macro, "),
    ],
)
def test_mistakes_about_a_task_are_one_sentence(files, mrpc, tmp_path, changes, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = {**files, "train_file": None, "eval_file": None, "task_name": "mrpc", "data_dir": mrpc}
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run({**flags, "output_dir": tmp_path / "out", **changes}, "do_train", "do_eval")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        ("", None, "train.csv is empty; give a file with rows$"),
        ("text,label\n", None, "train.csv has a header and no rows; give a file with at least one$"),
        (
            "text,label\na,pos\nb,pos\n",
            None,
            '^train.csv has one class only, "pos" in all 2 examples; training needs ex',
        ),
        (
            "text,label\na,pos\nb\n",
            None,
            "^train.csv line 3: 1 cell, but the first row has 2; look for a missing separ",
        ),
        (
            "text,label\na,pos\n,neg\n",
            None,
            '^train.csv line 3: the column "text" is empty; give a text, or remove the',
        ),
        ("text,label\na,pos\nb,\n", None, '^train.csv line 3: the column "label" is empty; every example needs a lab'),
        ("a,b\nx,pos\ny,neg\n", None, "train.csv: no column could be the text among a, b; name it with --text_column"),
        ("text,label\na,pos\nb,neg\n", "text,label\na,pos\nb,zzz\n", '^dev.csv line 3: label "zzz" is not one of neg,'),
        (
            "text,label\na,pos\nb,neg\n",
            "text,text_pair,label\na,b,pos\n",
            "^dev.csv line 2: a pair of texts, but the model is trained on a single text; name the only text with --t",
        ),
    ],
)
def test_mistakes_in_the_data_are_named_by_file_and_line(files, tmp_path, train, dev, message):
    flags = {**files, "train_file": tmp_path / "train.csv", "output_dir": tmp_path / "out"}
    (tmp_path / "train.csv").write_text(train)
    if dev is not None:
        flags["eval_file"] = tmp_path / "dev.csv"
        (tmp_path / "dev.csv").write_text(dev)
    with pytest.raises(ValueError, match=message):
        run(flags, "do_train", "do_eval")
    assert not (tmp_path / "out").exists()


def test_tensorflow_datasets_that_are_not_installed_are_named(files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    flags = {**files, "train_file": None, "eval_file": None, "output_dir": tmp_path / "out"}
    with pytest.raises(
        ValueError, match="^reading glue/mrpc needs TensorFlow Datasets, which is not installed: pip in"
    ):
        run(flags, "do_train", tfds="glue/mrpc")


def test_a_model_without_its_vocabulary_is_refused(files, start, tmp_path):
    folder = shutil.copytree(start, tmp_path / "start")
    (folder / "vocab.txt").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"^there is no vocab.txt in .*start; put it there, or give --vocab_file .*"
    ):
        run({**files, "init_checkpoint": folder, "output_dir": tmp_path / "out"}, "do_train")
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY[:-1]))
    with pytest.raises(
        ValueError, match=re.escape("vocab.txt has 21 tokens, but the model has 22 rows of word embedd")
    ):
        run(files, "do_train", output_dir=tmp_path / "out", vocab_file=tmp_path / "vocab.txt")


def test_a_pretrained_model_alone_cannot_be_asked(files, mrpc, tmp_path):
    flags = {"task_name": "mrpc", "data_dir": mrpc, "init_checkpoint": files["init_checkpoint"], "max_seq_length": 16}
    with pytest.raises(ValueError, match=r"bert_model.ckpt.*output_weights"):
        run(flags, "do_predict", output_dir=tmp_path / "out")
