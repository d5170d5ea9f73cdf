"""Minimal pairs: the formats of BLiMP and Zorro, and accuracies with their intervals."""

import json

import pytest

from bert_keras.tasks.tables.minimal_pairs import (
    Accuracy,
    mean_accuracy,
    paradigm_accuracy,
    read_paradigms,
    right_pairs,
    score_minimal_pairs,
)

PAIRS = [("Cats sleep.", "Cats sleeps."), ("A cat sleeps.", "A cat sleep."), ("Dogs bark.", "Dogs barks.")]


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, lines in files.items():
        (folder / name.replace("__", ".")).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder)


def blimp_line(good, bad, **keys):
    return json.dumps({"sentence_good": good, "sentence_bad": bad, "linguistics_term": "agreement", **keys})


def test_the_three_formats(tmp_path):
    folder = write(
        tmp_path / "pairs",
        a__jsonl=[blimp_line(*pair) for pair in PAIRS],
        **{"island-effects-b__txt": [sentence for good, bad in PAIRS for sentence in (bad, good)]},
        c__tsv=["\t".join(pair) for pair in PAIRS],
        notes__md=["other files are not read"],
    )
    paradigms = read_paradigms(folder)
    assert [(paradigm.name, paradigm.group) for paradigm in paradigms] == [
        ("a", "agreement"),
        ("c", ""),
        ("island-effects-b", "island-effects"),
    ]
    assert all(paradigm.pairs == PAIRS for paradigm in paradigms)
    write(tmp_path / "pairs", paradigms__tsv=["c\tnouns\tother", "a\tverbs"])
    assert [paradigm.group for paradigm in read_paradigms(folder)] == ["verbs", "nouns", "island-effects"]
    assert read_paradigms(f"{folder}/c.tsv")[0].pairs == PAIRS


@pytest.mark.parametrize(
    ("name", "lines", "message"),
    [
        ("a__tsv", ["good\tbad", "good"], "a.tsv line 2 has 0 tabs, but a pair has one; give the folder of BLiMP or"),
        ("a__tsv", ["good\t "], "a.tsv: a sentence of pair 1 is empty; each pair needs two sentences$"),
        ("a__txt", ["bad", "good", "bad"], "a.txt has 3 lines, but each bad sentence needs a good one after it$"),
        ("a__jsonl", ['{"sentence_good": "x"}'], 'a.jsonl line 1 has no "sentence_good" and "sentence_bad"; give'),
        ("a__jsonl", ["[1]"], "a.jsonl line 1 object 1: a JSON int instead of an object"),
        ("a__jsonl", ["{"], "a.jsonl line 2: not valid JSON"),
        ("a__csv", ["x"], r"pairs has no file that ends in .jsonl, .txt, .tsv; give the folder of BLiMP"),
    ],
)
def test_mistakes_in_files_of_pairs(tmp_path, name, lines, message):
    with pytest.raises(ValueError, match=message):
        read_paradigms(write(tmp_path / "pairs", **{name: lines}))


def test_an_equal_score_is_wrong_and_equal_sentences_are_counted(tmp_path, messages):
    folder = write(tmp_path / "pairs", a__tsv=["x\tx", "x\ty", "y\tx"])
    [paradigm] = read_paradigms(folder)
    assert right_pairs(paradigm, {"x": -1.0, "y": -1.0}) == [False] * 3
    assert right_pairs(paradigm, {"x": -1.0, "y": -2.0}) == [False, True, False]
    assert messages == [f"{folder}/a.tsv: pairs of two equal sentences, which no model gets right: 1"]


def test_intervals():
    """Wilson's interval of p of n: (p + z²/2n ± z√(pq/n + z²/4n²)) / (1 + z²/n)."""
    of_10 = paradigm_accuracy([True] * 8 + [False] * 2)
    z, p, n = 1.959963984540054, 0.8, 10
    half = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    low, high = ((p + z * z / (2 * n) + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    assert of_10 == pytest.approx(Accuracy(0.8, low, high, 10))
    assert paradigm_accuracy([True] * 10).high == 1.0
    # Two paradigms with variances 0.016 and 0.001 of their means: that of the mean is 0.017 / 4.
    mean = mean_accuracy([of_10, Accuracy(0.5, 0.0, 1.0, 250)])
    assert mean == pytest.approx(Accuracy(0.65, 0.65 - z * 0.06519202, 0.65 + z * 0.06519202, 260), abs=1e-6)
    assert mean_accuracy([paradigm_accuracy([True] * 10)])[:3] == (1.0, 1.0, 1.0)


def test_scores_of_any_program(tmp_path):
    folder = write(tmp_path / "pairs", **{"x-a__txt": ["b0", "a0", "b1", "a1"], "y-b__txt": ["b2", "a0"]})
    scores = {"a0": -1.0, "a1": -5, "b0": -2.0, "b1": -3.0, "b2": -0.5}
    file = tmp_path / "scores.jsonl"
    file.write_text("".join(json.dumps({"text": t, "log_probability": s}) + "\n" for t, s in scores.items()))
    metrics, report = score_minimal_pairs(folder, str(file))
    assert metrics["task"] == "minimal_pairs"
    assert (metrics["accuracy"], metrics["pairs"]) == (0.25, 3)
    assert {name: value["accuracy"] for name, value in metrics["paradigms"].items()} == {"x-a": 0.5, "y-b": 0.0}
    assert {name: value["accuracy"] for name, value in metrics["groups"].items()} == {"x": 0.5, "y": 0.0}
    assert "mean of paradigms        25.0" in report
    # A program that gives all sentences the same score has no pair right, so it cannot seem better than chance.
    file.write_text("".join(json.dumps({"text": text, "log_probability": -1.0}) + "\n" for text in scores))
    assert score_minimal_pairs(folder, str(file))[0]["accuracy"] == 0.0
    file.write_text('{"text": "a0", "log_probability": -1}\n')
    with pytest.raises(ValueError, match='scores.jsonl has no score of "b0", a sentence of x-a; score each sentence'):
        score_minimal_pairs(folder, str(file))
    # predict.py takes a .tsv only with its folder.
    (tmp_path / "pairs" / "z.tsv").write_text("a0\tb0\n")
    with pytest.raises(
        ValueError, match=f"score each sentence of {folder} .predict.py --task=score --input_file={folder} "
    ):
        score_minimal_pairs(f"{folder}/z.tsv", str(file))
    for line in ('{"text": "a0", "log_probability": NaN}', '{"text": "a0"}', "{}", '{"log_probability": 1}'):
        file.write_text(f"{line}\n")
        with pytest.raises(ValueError, match="scores.jsonl line 1 is not the score of a sentence; each line needs"):
            score_minimal_pairs(folder, str(file))


def test_blimp_and_zorro(shared_dir, messages):
    blimp, zorro = (read_paradigms(shared_dir(f"data/{name}")) for name in ("blimp", "zorro"))
    assert [len(paradigm.pairs) for paradigm in blimp] == [1000] * 67
    assert [len(paradigm.pairs) for paradigm in zorro] == [2000] * 23
    assert {paradigm.group for paradigm in blimp} >= {"morphology", "syntax", "semantics"}
    pairs = {paradigm.name: paradigm.pairs[0] for paradigm in [*blimp, *zorro]}
    assert pairs["causative"] == ("Aaron breaks the glass.", "Aaron appeared the glass.")
    assert pairs["case-subjective_pronoun"] == ("i brought the wolf my hill .", "the wolf brought i my hill .")
    assert [message.rpartition(": ")[2] for message in messages] == ["2", "5"]
