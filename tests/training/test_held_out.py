"""Both parts of the examples have the same share of every label."""

import collections
import dataclasses
import json
import pathlib
import random

import pytest
import rich.console

import bert_keras
from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.export.run_folder import reopen_evaluation
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.programs.command import PROGRAMS
from bert_keras.settings.groups import EvaluatedSettings
from bert_keras.tasks.classification.held_out import hold_out
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tagging.files import split_sentences
from bert_keras.tasks.tagging.settings import NerSettings
from bert_keras.tasks.vectors.data import read_texts, split_texts
from bert_keras.tasks.vectors.settings import VectorSettings


def examples_of(labels):
    return [Example(str(number), f"text {number}", label=label) for number, label in enumerate(labels)]


def counts_of(examples, kind):
    return collections.Counter(
        name for each in examples for name in (each.label if kind == "multi_label" else [each.label])
    )


@pytest.mark.parametrize(
    ("counts", "share", "held_out"),
    [
        ({"a": 20, "b": 10}, 0.2, {"a": 4, "b": 2}),
        ({"a": 90, "b": 9, "c": 1}, 0.1, {"a": 9, "b": 1}),
        ({"a": 5, "b": 5}, 0.5, None),
        ({"a": 1, "b": 1, "c": 4}, 0.5, {"c": 3}),  # a label with one example stays in training
        (dict.fromkeys("abcdefghij", 2), 0.1, None),
        (dict.fromkeys(map(str, range(40)), 3), 0.3, None),
        ({"a": 1, "b": 1, "c": 2}, 0.75, {"c": 1}),
    ],
)
def test_every_label_has_its_share(counts, share, held_out):
    labels = [label for label, count in counts.items() for _ in range(count)]
    random.Random(1).shuffle(labels)
    train, dev = hold_out(examples_of(labels), share, "train.csv", "single_label")
    found = counts_of(dev, "single_label")
    if held_out is None:
        assert len(dev) == round(share * len(labels))
        assert max(found.values()) - min(found[label] for label in counts) <= 1
    else:
        assert found == held_out
    assert set(counts_of(train, "single_label")) == set(counts)
    assert sorted(int(each.id) for each in train + dev) == list(range(len(labels)))
    assert hold_out(examples_of(labels), share, "other.csv", "single_label") == (train, dev)


@pytest.mark.parametrize("seed", range(5))
def test_no_label_of_several_is_only_held_out(seed):
    draw = random.Random(seed)
    # Frequencies from 150 down to 1 or 2 of 300 examples.
    shares = {f"label{number}": 0.5**number for number in range(1, 9)}
    labels = [tuple(name for name, share in shares.items() if draw.random() < share) for _ in range(300)]
    examples = examples_of(labels)
    train, dev = hold_out(examples, 0.2, "train.csv", "multi_label")
    assert len(dev) == 60
    everywhere, held_out = counts_of(examples, "multi_label"), counts_of(dev, "multi_label")
    assert set(counts_of(train, "multi_label")) == set(everywhere)
    for name, count in everywhere.items():
        assert abs(held_out[name] - 0.2 * count) <= 2 + 0.05 * count, name


def test_numbers_are_held_out_without_a_look_at_them():
    train, dev = hold_out(examples_of([1.0, 1.0, 2.0, 3.0]), 0.5, "train.csv", "regression")
    assert (len(train), len(dev)) == (2, 2)


def with_copies(counts, draw):
    """Return examples of shuffled rows: each text as often as `counts` says, with other case and blanks."""
    texts = [
        f"{' ' * copy}{'tT'[copy % 2]}ext {number}" for number, count in enumerate(counts) for copy in range(count)
    ]
    draw.shuffle(texts)
    return [Example(str(number), text, source=f"all.csv line {number + 2}") for number, text in enumerate(texts)]


def text_of(example):
    return tuple(sorted(" ".join(text.lower().split()) for text in example.texts))


@pytest.mark.parametrize("kind", ["single_label", "multi_label", "regression"])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("copies", ["four of each", "a few", "some with many"])
def test_equal_texts_are_on_one_side(kind, share, copies):
    draw = random.Random(f"{kind} {share} {copies}")
    counts = {"four of each": [4] * 60, "a few": [1, 1, 1, 2, 1, 3] * 50, "some with many": [1] * 300 + [20, 15, 10]}
    of_text = collections.defaultdict(
        lambda: {"single_label": draw.choice("aaab"), "regression": draw.random()}.get(kind)
    )

    def label(example):
        if kind == "multi_label":
            return tuple(name for name in "abc" if draw.random() < 0.4)
        # One in ten rows contradicts its copies.
        return draw.choice("ab") if kind == "single_label" and draw.random() < 0.1 else of_text[text_of(example)]

    examples = [dataclasses.replace(each, label=label(each)) for each in with_copies(counts[copies], draw)]
    train, dev = hold_out(examples, share, "all.csv", kind)
    assert not {*map(text_of, train)} & {*map(text_of, dev)}
    assert sorted(train + dev, key=lambda each: int(each.id)) == examples
    assert len(dev) == pytest.approx(share * len(examples), abs=4)
    if kind == "regression":
        return
    everywhere, held_out = counts_of(examples, kind), counts_of(dev, kind)
    for name, count in everywhere.items():
        assert held_out[name] == pytest.approx(share * count, abs=4 + 0.05 * count), name


def test_pairs_and_choices_are_compared_text_by_text():
    pairs = [Example(str(n), f"q{n % 20}", f"a{n // 20}", label="ab"[n % 2]) for n in range(60)]
    swapped = [Example(str(n), f"a{n // 20} ", f"Q{n % 20}", label="ab"[n % 2]) for n in range(60)]
    train, dev = hold_out(pairs + swapped, 0.2, "all.csv", "single_label")
    assert len(dev) == 24
    assert {text_of(each) for each in dev}.isdisjoint(map(text_of, train))
    asked = [Example(str(n), "which?", label=str(n % 2), choices=(f"x{n // 2}", "y")) for n in range(40)]
    train, dev = hold_out(asked, 0.25, "all.csv", "multiple_choice")
    assert len(dev) == 10
    assert {each.choices for each in dev}.isdisjoint(each.choices for each in train)


def test_a_text_with_too_many_copies():
    # Each text has more copies than the share: one is held out, and the log says how many examples that are.
    examples = examples_of("ab" * 30)
    examples = [dataclasses.replace(each, text_a=f"text {int(each.id) % 6}") for each in examples]
    train, dev = hold_out(examples, 0.1, "all.csv", "single_label")
    assert (len(train), len(dev)) == (50, 10)
    with pytest.raises(ValueError, match="leaves 60 to train and 0 to evaluate on, because no label has two different"):
        hold_out(
            [dataclasses.replace(each, text_a=str(each.label)) for each in examples], 0.1, "all.csv", "single_label"
        )


def test_the_log_tells_copies_and_rare_labels(caplog):
    caplog.set_level("INFO", "bert_keras")
    examples = examples_of("aabb" * 10 + "cdd")
    examples[-1] = dataclasses.replace(examples[-1], text_a=examples[-2].text_a)
    hold_out(examples, 0.2, "folder/all.csv", "single_label")
    assert "all.csv: 9 of 43 examples, chosen at random within each label, are held out" in caplog.text
    assert "; equal texts (1 copies) stay together" in caplog.text
    told = "all.csv: no held-out example has these labels, which are too rare (with their examples): c (1), d (2)"
    assert told in caplog.text
    caplog.clear()
    hold_out(examples_of("aabb"), 0.5, "all.csv", "single_label")
    assert "stay together" not in caplog.text
    assert "too rare" not in caplog.text


@pytest.mark.parametrize(
    ("labels", "share", "message"),
    [
        ("aab", 0.1, "^eval_share=0.1 of 3 examples leaves 3 to train and 0 to evaluate on; give another share"),
        (
            "abc",
            0.5,
            "^eval_share=0.5 of 3 examples leaves 3 to train and 0 to evaluate on, because no label has two different "
            "texts; give another share",
        ),
        *(
            (labels, 0.5, "two different texts \\(labels that are numbers need kind=regression\\); give")
            for labels in (("0.5", "1.25", "2"), ("0,5", "1,25", "2"))
        ),
    ],
)
def test_nothing_to_hold_out(labels, share, message):
    with pytest.raises(ValueError, match=message):
        hold_out(examples_of(labels), share, "train.csv", "single_label")


SAMPLE = pathlib.Path(bert_keras.__file__).parents[1] / "data_prep" / "sample"
WORDS = ["order", "box", "coat", "late", "red", "blue", "shop", "kettle", "parcel", "street"]
QUERIES = "query,text,score\n" + "".join(
    f"{word} {number},{word} {other},{int(other == 1 and number != 3)}\n"
    for word in WORDS
    for number in range(4)
    for other in range(3)
)
CLASSES = "text,label\n" + "".join(f"{word} {n},{'xyz'[n % 3]}\n" for word in WORDS for n in range(4))
PAIRS = "text,text_pair\n" + "".join(f"{word} {n // 2},{word} shop {n}\n" for word in WORDS for n in range(4))
DATA = {
    "run_ner": (None, "entities.txt", 300, 60),
    "run_squad": (None, "questions.json", 54, 11),
    "run_reranker": (QUERIES, "queries.csv", 40, 10),
    "run_sentence_vectors": (PAIRS, "pairs.csv", 40, 10),
}


def opened(program, folder, **settings):
    """Open a run of one step that holds out a share of its data."""
    content, name, count, held_out = DATA[program]
    (folder / name).write_text(content or (SAMPLE / name).read_text(encoding="utf-8"), encoding="utf-8")
    settings = {"do_train": True, "do_eval": True, "init_checkpoint": str(SAMPLE / "encoder")} | settings
    settings |= {"train_file": str(folder / name), "eval_share": held_out / count, "output_dir": str(folder / "run")}
    if program == "run_squad":
        settings |= {"version_2_with_negative": True, "max_seq_length": 96, "max_query_length": 24, "doc_stride": 32}
        del settings["do_eval"]
    else:
        settings |= {"max_seq_length": 48}
    given = PROGRAMS[program].settings.from_arguments("f", settings)
    return PROGRAMS[program].load().open_run(given, rich.console.Console(quiet=True))


def texts_of(features):
    rows = features["input_ids"].reshape(-1, features["input_ids"].shape[-1])
    return {row.tobytes() for row in rows}


@pytest.mark.parametrize("program", DATA)
def test_every_program_holds_out_the_same_part_of_its_data(program, tmp_path, caplog):
    caplog.set_level("INFO", "bert_keras")
    _, name, count, held_out = DATA[program]
    task = opened(program, tmp_path).task
    assert f"{name}: {held_out} of {count} " in caplog.text
    task.prepare(str(tmp_path))
    assert not texts_of(task.train_features) & texts_of(task.eval_features)
    (tmp_path / "again").mkdir()
    again = opened(program, tmp_path / "again", seed=7).task
    again.prepare(str(tmp_path / "again"))
    assert again.facts == task.facts
    assert (again.eval_features["input_ids"] == task.eval_features["input_ids"]).all()


def test_a_task_from_outside_the_project_has_no_share_that_it_would_ignore():
    with pytest.raises(TypeError, match="eval_share"):
        EvaluatedSettings.from_arguments("train_reviews", {"eval_share": 0.2})


def test_documents_stay_whole_if_they_are_the_context():
    sentences = [Sentence([f"w{n}"], ["B-LOC" if n % 5 else "O"], document=n // 6) for n in range(60)]
    settings = NerSettings(do_train=True, do_eval=True, train_file="a.txt", eval_share=0.3, document_context=True)
    found, _ = split_sentences(settings, {"train_file": sentences})
    documents = [{sentence.document for sentence in found[name]} for name in ("train_file", "eval_file")]
    assert not documents[0] & documents[1]
    assert [len(found[name]) for name in ("train_file", "eval_file")] == [42, 18]
    with pytest.raises(
        ValueError, match=r"^a\.txt: document_context keeps documents whole, and all sentences are in one"
    ):
        split_sentences(settings, {"train_file": sentences[:6]})


def test_vectors_hold_out_classes_alike_and_rows_of_a_text_together(tmp_path):
    for content in (CLASSES, PAIRS):
        (tmp_path / "a.csv").write_text(content, encoding="utf-8")
        settings = VectorSettings(do_train=True, do_eval=True, train_file=str(tmp_path / "a.csv"), eval_share=0.3)
        found, _ = split_texts(settings, {"train_file": read_texts(settings, "train_file")})
        train, dev = found["train_file"], found["eval_file"]
        assert not {row[0] for row in train.rows} & {row[0] for row in dev.rows}
        assert (len(train.rows), len(dev.rows)) == (28, 12)
    assert train.labels == dev.labels == []


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("program", ["run_ner", "run_reranker", "run_sentence_vectors"])
def test_a_held_out_part_is_evaluated_later(program, tmp_path):
    result = opened(program, tmp_path, max_steps=1).execute()
    later = opened(program, tmp_path, do_train=False, init_checkpoint=None).execute()
    assert later.metrics == pytest.approx(result.metrics)
    config = json.loads((tmp_path / "run" / "run_config.json").read_text(encoding="utf-8"))
    files = ModelFolder(str(tmp_path / "run"))
    task = reopen_evaluation({**config, "folder": str(tmp_path / "run")}, files.task, files)
    report = json.loads((tmp_path / "run" / "evaluation.json").read_text(encoding="utf-8"))
    assert len(task.eval_features["input_ids"]) == report["data"]["num_rows"]
    config["facts"]["not_held_out_sha256"] = "other"
    (tmp_path / "run" / "run_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="was not trained on exactly the rest of it; give eval_file$"):
        opened(program, tmp_path, do_train=False, init_checkpoint=None)
