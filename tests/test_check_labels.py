"""`check_labels.py` and `check_labels`, from tables of texts to tables of suspects."""

import json
import re

import numpy as np
import pytest
from tiny_classes import table_in, texts, write_encoder, write_rows, write_start
from training_programs import check_labels as program
from training_programs import run_few_shot

from bert_keras import check_labels
from bert_keras.cli.flags import run_main
from bert_keras.programs import label_checks
from bert_keras.programs.calls import TrainedModel
from bert_keras.storage import writing
from bert_keras.tasks.classification.suspects import are_confident, choose_next
from bert_keras.tasks.tables.examples import Example

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return write_encoder(tmp_path_factory.mktemp("encoder") / "start")


@pytest.fixture(scope="module")
def rows():
    """Sixty texts, of which the labels of these are wrong: 3, 20 and 41; the last is a second one of text 0."""
    made = [[text, label] for text, label in texts(60, 1)]
    for wrong in (3, 20, 41):
        made[wrong][1] = {"pos": "neg", "neg": "pos"}[made[wrong][1]]
    text, label = made[0]
    return [*made, [f'"{text}"', {"pos": "neg", "neg": "pos"}[label]]]


def run(encoder, folder, *flags):
    argv = ["check_labels.py", f"--init_checkpoint={encoder}", f"--output_dir={folder}", "--max_seq_length=12", *flags]
    return run_main(program.main, argv)


def test_wrong_labels_come_first_with_their_lines(encoder, rows, tmp_path):
    # The first row has a line end in its cell, so that lines and rows differ.
    made = [[f'"{rows[0][0]}\n"', rows[0][1]], *rows[1:]]
    data = write_rows(tmp_path / "train.csv", "text,label", made, ",")
    assert run(encoder, tmp_path / "out", f"--train_file={data}") == 0
    suspects = table_in(tmp_path / "out" / "suspects.tsv")
    first = {suspect["source"] for suspect in suspects[:5]}
    assert {f"train.csv line {row + 3}" for row in (3, 20, 41)} <= first
    assert all(suspect["label"] != suspect["suggestion"] for suspect in suspects)
    margins = [float(suspect["margin"]) for suspect in suspects]
    assert margins == sorted(margins)
    assert margins[-1] <= 0
    assert all(suspect["neighbours"].count("train.csv line") == 3 for suspect in suspects)
    pairs = table_in(tmp_path / "out" / "confused_classes.tsv")
    assert sum(int(pair["count"]) for pair in pairs) == len(suspects)
    duplicates = table_in(tmp_path / "out" / "duplicates.tsv")
    assert {(one["source"], one["label"]) for one in duplicates} >= {
        ("train.csv line 2", rows[0][1]),
        ("train.csv line 63", rows[-1][1]),
    }
    assert not (tmp_path / "out" / "leaks.tsv").exists()


def test_copies_do_not_vouch_for_a_wrong_label(encoder, tmp_path):
    made = [[text, label] for text, label in dict(texts(90, 1)).items()]
    wrong = {3, 11, 20}
    for number in wrong:
        made[number][1] = {"pos": "neg", "neg": "pos"}[made[number][1]]
    spelled = [str, str.upper, "  {}\u00a0".format]
    data = [
        (spell(text), label)
        for spell in spelled
        for text, label in made
        if spell is str or made.index([text, label]) in wrong
    ]
    settings = {"init_checkpoint": encoder, "max_seq_length": 12, "verbose": False}
    check = check_labels(data, output_dir=tmp_path / "out", **settings)
    planted = {f"train_data row {row}" for row in {*wrong, *range(len(made), len(data))}}
    assert len(planted) == 9
    assert {suspect.source for suspect in check.suspects[:12]} >= planted
    assert {suspect.source for suspect in check.suspects if suspect.is_confident} >= planted
    for suspect in check.suspects:  # the neighbours are other texts
        places = [int(neighbour.split(" row ")[1].split(":")[0]) for neighbour in suspect.neighbours]
        found = {" ".join(data[place][0].lower().split()) for place in places}
        assert len(found | {" ".join(suspect.text.lower().split())}) == 4
    table = table_in(tmp_path / "out" / "suspects.tsv")
    assert {row["is_confident"] for row in table} <= {"yes", "no"}
    assert [row["is_confident"] == "yes" for row in table] == [one.is_confident for one in check.suspects]


def test_folds_keep_equal_texts_together():
    draw = np.random.default_rng(0)
    numbers = np.repeat(np.arange(60), draw.integers(1, 5, 60))
    examples = [Example(str(row), f"text {number}" + " " * row) for row, number in enumerate(numbers)]
    ids = draw.permutation(3)[numbers % 3]
    split = label_checks.split_by_text(examples, ids, 5, 7)
    assert sorted(np.concatenate([held_out for _, held_out in split])) == [*range(len(numbers))]
    for train, held_out in split:
        assert not {*numbers[train]} & {*numbers[held_out]}
        assert np.abs(np.bincount(ids[held_out]) - np.bincount(ids) / 5).max() <= 4
    assert all(
        np.array_equal(*pair) for pair in zip(split[0], label_checks.split_by_text(examples, ids, 5, 7)[0], strict=True)
    )


def confident_one_by_one(probabilities, ids):
    """Return the labels that confident learning finds wrong, as the paper describes it, text by text."""
    thresholds = [probabilities[ids == label, label].mean() for label in range(probabilities.shape[1])]
    found = []
    for row, label in zip(probabilities, ids, strict=True):
        above = [other for other, threshold in enumerate(thresholds) if row[other] >= threshold]
        best = max(above, key=lambda other: row[other], default=label)
        found.append(best != label and row[label] < row.max())
    return found


@pytest.mark.parametrize("seed", range(20))
def test_confident_labels_are_those_of_confident_learning(seed):
    draw = np.random.default_rng(seed)
    num_classes = int(draw.integers(2, 6))
    truth = draw.integers(num_classes, size=150)
    ids = np.where(draw.random(150) < 0.2, draw.integers(num_classes, size=150), truth)
    probabilities = draw.dirichlet(np.full(num_classes, draw.choice([0.3, 1, 4])), 150) + np.eye(num_classes)[truth] / 2
    probabilities /= probabilities.sum(-1, keepdims=True)
    found = are_confident(probabilities, ids)
    assert found.any()
    assert found.tolist() == confident_one_by_one(probabilities, ids)


def test_cleanlab_finds_the_same():
    draw = np.random.default_rng(0)
    ids = draw.integers(4, size=60)
    # Rounded, so that many probabilities are equal.
    probabilities = np.round(draw.dirichlet(np.ones(4), 60), 1) + 0.001 + np.eye(4)[ids] / 4
    probabilities /= probabilities.sum(-1, keepdims=True)
    # Recorded: find_label_issues(ids, probabilities, filter_by="confident_learning") of cleanlab 2.9.0.
    expected = [4, 7, 12, 19, 23, 25, 27, 29, 30, 32, 33, 36, 39, 44, 47, 54, 55]
    assert np.flatnonzero(are_confident(probabilities, ids)).tolist() == expected


def test_a_class_without_a_text_is_never_suggested():
    assert are_confident(np.array([[0.1, 0.2, 0.7], [0.2, 0.7, 0.1]]), np.array([0, 1])).tolist() == [False, False]


def test_leaks_and_next_labels_from_python(encoder, rows, tmp_path):
    made = [(text, label) for text, label in rows[:60]]
    evaluated = [made[5], ("sad sad sad sad", "neg")]
    check = check_labels(
        made,
        evaluated,
        ["good film", "good film", "good bad film", "poor film"],
        init_checkpoint=encoder,
        output_dir=tmp_path / "out",
        max_seq_length=12,
        num_next_labels=3,
        verbose=False,
    )
    assert check.leaks[0].similarity == 1
    assert (check.leaks[0].text, check.leaks[0].train_text) == (made[5][0], made[5][0])
    assert 0.7 < check.accuracy == 1 - len(check.suspects) / 60
    margins = [one.margin for one in check.next_labels]
    assert margins[0] == min(margins) < max(margins)
    assert len({one.text for one in check.next_labels}) == 3
    assert len(table_in(tmp_path / "out" / "next_labels.tsv")) == 3


def test_next_labels_are_unclear_and_unlike_each_other():
    vectors = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    probabilities = np.array([[0.5, 0.5], [0.51, 0.49], [0.6, 0.4], [1.0, 0]])
    examples = [Example(str(row), f"text {row}", source=f"line {row}") for row in range(4)]
    chosen = choose_next(examples, ("a", "b"), vectors, probabilities, 3)
    assert [one.source for one in chosen[:2]] == ["line 0", "line 2"]
    assert chosen[0].margin == 0
    assert chosen[1].guess == "a"


def test_only_equal_texts_are_duplicates(encoder, rows, tmp_path):
    # These begin with the same tokens, or have words that the vocabulary lacks.
    unlike = [("the film was very " * 4 + "good", "pos"), ("the film was very " * 4 + "sad", "neg")]
    unlike += [("zebra apple", "pos"), ("quark lemon", "neg")]
    equal = [("They left  SO", "pos"), ("they left so", "neg")]
    check = check_labels(
        [*map(tuple, rows[1:60]), *unlike, *equal],
        init_checkpoint=encoder,
        output_dir=tmp_path / "out",
        max_seq_length=12,
        verbose=False,
    )
    assert {equal[0][0], equal[1][0]} <= {one.text for one in check.duplicates}
    assert not {text for text, _ in unlike} & {one.text for one in check.duplicates}


def test_folds_are_fine_tuned_once(rows, tmp_path):
    start = write_start(tmp_path / "start")
    data = write_rows(tmp_path / "train.csv", "text,label", rows[:24], ",")
    flags = [f"--train_file={data}", "--fine_tune", "--folds=2", "--num_train_epochs=1", "--train_batch_size=4"]
    assert run(start, tmp_path / "out", *flags) == 0
    folds = tmp_path / "out" / "folds"
    assert sorted(path.name for path in folds.iterdir()) == ["1", "2"]
    settings = json.loads((folds / "1" / "run_config.json").read_text())["settings"]
    assert settings["num_train_epochs"] == 1
    before = (folds / "1" / "metrics.csv").read_bytes()
    first = (tmp_path / "out" / "suspects.tsv").read_bytes()
    (tmp_path / "out" / "suspects.tsv").unlink()
    for name in ("confused_classes", "duplicates"):
        (tmp_path / "out" / f"{name}.tsv").unlink(missing_ok=True)
    assert run(start, tmp_path / "out", *flags) == 0
    assert (folds / "1" / "metrics.csv").read_bytes() == before
    assert (tmp_path / "out" / "suspects.tsv").read_bytes() == first


def test_folds_may_be_few_shot_models(encoder, rows, tmp_path):
    data = write_rows(tmp_path / "train.csv", "text,label", rows[:60], ",")
    assert run(encoder, tmp_path / "out", f"--train_file={data}", "--contrastive_epochs=2", "--folds=2") == 0
    first = {suspect["source"] for suspect in table_in(tmp_path / "out" / "suspects.tsv")[:4]}
    assert {f"train.csv line {row + 2}" for row in (3, 20, 41)} <= first
    config = json.loads((tmp_path / "out" / "folds" / "2" / "run_config.json").read_text())
    assert (config["program"], config["settings"]["contrastive_epochs"]) == ("run_few_shot", 2)


def test_a_signal_in_a_fold_ends_the_check(rows, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(label_checks, "train_classifier", lambda *_, **settings: TrainedModel("", "run_classifier"))
    data = write_rows(tmp_path / "train.csv", "text,label", rows[:24], ",")
    flags = [f"--train_file={data}", "--fine_tune", "--folds=2", "--train_batch_size=4"]
    assert run(write_start(tmp_path / "start"), tmp_path / "out", *flags) == 130
    assert "check_labels.py: interrupted" in capsys.readouterr().err
    assert not (tmp_path / "out" / "suspects.tsv").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--folds=40"], "--folds=40, but no label has more than "),
        (
            ["--fine_tune", "--contrastive_epochs=2"],
            "--fine_tune and --contrastive_epochs train the folds in different",
        ),
        (["--learning_rate=1e-4"], "--learning_rate is for --fine_tune; give both, or leave it out"),
        (["--num_next_labels=3"], "--num_next_labels is for --unlabeled_file; give both, or leave it out"),
        (
            ["--max_seq_length=600"],
            "--max_seq_length=600 is more than the 24 positions that the model has; give 24 or less",
        ),
        (["--fine_tune", "--num_train_epochs=0"], "--num_train_epochs=0.0 give no training step; give a smaller batch"),
        (["--fine_tune", "--learning_rate=0"], "--learning_rate=0: 0 is not a number from 1e-12"),
        (["--label_column=grade"], "grade"),
        (["--eval_file=FOLDER/none.csv"], "none.csv"),
        (["--unlabeled_file=FOLDER/none.csv"], "none.csv"),
    ],
)
def test_mistakes(encoder, rows, tmp_path, capsys, flags, message):
    data = write_rows(tmp_path / "train.csv", "text,label", rows, ",")
    flags = [flag.replace("FOLDER", str(tmp_path)) for flag in flags]
    assert run(encoder, tmp_path / "out", f"--train_file={data}", *flags) == 1
    assert message in capsys.readouterr().err.replace("\n    ", " ")
    assert not (tmp_path / "out").exists()


def test_a_mistake_names_the_program_that_has_its_flag(encoder, tmp_path, capsys):
    data = write_rows(tmp_path / "train.csv", "text,label", [["a b", '["x"]'], ["c d", '["x", "y"]']], ",")
    assert run(encoder, tmp_path / "out", f"--train_file={data}") == 1
    told = capsys.readouterr().err
    assert "lists are for --kind=multi_label" in told
    assert told.rstrip().endswith("; for --kind, use run_classifier.py")
    data = write_rows(tmp_path / "train.csv", "text,label", [[f"a {row}", f"c{row}"] for row in range(60)], ",")
    assert run_main(run_few_shot.main, ["run_few_shot.py", f"--train_file={data}", "--dry_run"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "numbers need --kind=regression; for --kind, use run_classifier.py" in told


def test_a_rare_label_and_earlier_tables_are_refused(encoder, rows, tmp_path, capsys):
    rare = write_rows(tmp_path / "rare.csv", "text,label", [*rows, ["the film", "odd"]], ",")
    assert run(encoder, tmp_path / "out", f"--train_file={rare}") == 1
    told = capsys.readouterr().err.replace("\n    ", " ")
    assert 'rare.csv line 63: the label "odd" has one text, but a check needs two of each label' in told
    copied = write_rows(tmp_path / "copied.csv", "text,label", [*rows, ["the film", "odd"], ["The  film", "odd"]], ",")
    assert run(encoder, tmp_path / "out", f"--train_file={copied}") == 1
    told = capsys.readouterr().err.replace("\n    ", " ")
    assert 'copied.csv line 63: the label "odd" has one text, 2 times, but a check needs two of each label' in told
    data = write_rows(tmp_path / "train.csv", "text,label", rows, ",")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "suspects.tsv").write_text("mine")
    assert run(encoder, tmp_path / "out", f"--train_file={data}") == 1
    assert "has the suspects.tsv of an earlier check; give another folder" in capsys.readouterr().err.replace(
        "\n    ", " "
    )
    assert (tmp_path / "out" / "suspects.tsv").read_text() == "mine"


def test_tables_have_the_ids(encoder, rows, tmp_path):
    made = [[f"t{number}", *row] for number, row in enumerate(rows)]
    data = write_rows(tmp_path / "train.csv", "nr,text,label", made, ",")
    evaluated = write_rows(tmp_path / "eval.csv", "nr,text,label", [["e0", *rows[5]], ["e1", *rows[7]]], ",")
    more = write_rows(tmp_path / "more.csv", "nr,text", [["m0", "good film"], ["m1", "poor film"]], ",")
    flags = [f"--train_file={data}", f"--eval_file={evaluated}", f"--unlabeled_file={more}", "--id_column=nr"]
    assert run(encoder, tmp_path / "out", *flags) == 0
    tables = {
        name: table_in(tmp_path / "out" / f"{name}.tsv") for name in label_checks.TABLES if name != "confused_classes"
    }
    for name in ("suspects", "duplicates"):
        assert all(one["source"] == f"train.csv line {int(one['id'][1:]) + 2}" for one in tables[name])
    assert [one["id"] for one in tables["leaks"]] == ["e0", "e1"]
    assert [rows[int(one["train_id"][1:])][0] for one in tables["leaks"]] == [rows[5][0], rows[7][0]]
    assert {one["id"] for one in tables["next_labels"]} == {"m0", "m1"}


def test_places_of_data_in_memory_are_their_rows(encoder, rows, tmp_path, messages):
    data = [tuple(row) for row in rows[:60]]
    check = check_labels(data, init_checkpoint=encoder, output_dir=tmp_path / "out", max_seq_length=12, verbose=False)
    for suspect in check.suspects:
        name, number = suspect.source.split(" row ")
        assert (name, data[int(number)]) == ("train_data", (suspect.text, suspect.label))
        assert suspect.id == ""
    assert {f"train_data row {row}" for row in (3, 20, 41)} <= {suspect.source for suspect in check.suspects}
    assert "id" not in table_in(tmp_path / "out" / "suspects.tsv")[0]
    assert "encoding the texts of train_data (60)" in messages
    assert not [line for line in messages if ".jsonl" in line]


def test_a_check_that_stopped_between_its_tables_continues(encoder, rows, tmp_path, monkeypatch):
    data = write_rows(tmp_path / "train.csv", "text,label", rows, ",")
    assert run(encoder, tmp_path / "whole", f"--train_file={data}") == 0
    leaking = ["--eval_file=" + write_rows(tmp_path / "eval.csv", "text,label", rows[5:6], ",")]
    write = writing.write_text

    def stop(path, text):
        if path.endswith("suspects.tsv"):
            raise OSError("stopped")
        write(path, text)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_text", stop)
        assert run(encoder, tmp_path / "out", f"--train_file={data}", *leaking) == 1
    assert (tmp_path / "out" / "leaks.tsv").exists()
    assert run(encoder, tmp_path / "out", f"--train_file={data}") == 0
    contents = [{path.name: path.read_text() for path in (tmp_path / name).iterdir()} for name in ("out", "whole")]
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ("0", "1", None),
        ("food, cheap", "service", None),
        ("1.0", "2.0", None),
        ("Albany, NY", "Buffalo, NY", None),
        ("a", "a;b", "a;b"),
        ("a|b", "c | b", "a|b"),
        ("0", "0.5", "0"),
    ],
)
def test_several_labels_and_numbers_are_named(encoder, tmp_path, capsys, first, second, named):
    data = [(text, {"pos": first, "neg": second}[label]) for text, label in texts(30, 1)]
    check_labels(data, init_checkpoint=encoder, output_dir=tmp_path / "out", max_seq_length=12)
    warnings = [line for line in capsys.readouterr().out.splitlines() if "counts as a class" in line]
    warning = f'warning: the label "{named}" counts as a class: several labels of a text, or numbers on a scale, cannot'
    assert [line[: len(warning)] for line in warnings] == ([warning] if named else [])


def test_one_of_a_thing_reads_well(encoder, rows, tmp_path, capsys):
    data = write_rows(tmp_path / "train.csv", "text,label", rows, ",")
    evaluated = write_rows(tmp_path / "eval.csv", "text,label", rows[5:6], ",")
    assert run(encoder, tmp_path / "out", f"--train_file={data}", f"--eval_file={evaluated}") == 0
    out = capsys.readouterr().out
    assert "encoding the texts of eval.csv (1)\n" in out
    assert "texts of eval.csv that are also in train.csv, or nearly: 1\n" in out
    assert "texts that occur several times, with different labels: 1\n" in out
    assert not re.search(r"\b1 (texts|times)", out)
