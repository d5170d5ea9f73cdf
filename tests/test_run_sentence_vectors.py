"""The program from flags to files, on texts whose first word decides which belong together."""

import json
import random

import keras
import numpy as np
import pytest
import tiny_classes
from known_models import TOKENS, answers_in, make_config, write_model
from training_programs import run_sentence_vectors
from training_runs import rows_of, stop_after

from bert_keras import open_model, train_sentence_vectors
from bert_keras.commands import predict
from bert_keras.modeling import PretrainingModel, SentenceModel, open_checkpoint

WORDS = ["paris", "london", "france", "he", "she", "walking", "hungry", "capital"]


def sentence(first, draw):
    return " ".join([first, *draw.choices(WORDS, k=draw.randint(1, 3))])


def write_rows(path, names, rows):
    path.write_text("\n".join("\t".join(map(str, row)) for row in [names, *rows]) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A folder with pairs, triplets, scored pairs, inferences, classes and texts."""
    folder, draw = tmp_path_factory.mktemp("vectors"), random.Random(0)
    alike = [(sentence(word, draw), sentence(word, draw)) for word in WORDS * 4]
    others = [(sentence(word, draw), sentence(WORDS[WORDS.index(word) - 1], draw)) for word in WORDS * 4]
    write_rows(folder / "pairs.tsv", ("anchor", "positive"), alike)
    triplets = [(*pair, other) for pair, (_, other) in zip(alike, others, strict=True)]
    write_rows(folder / "triplets.tsv", ("anchor", "positive", "negative"), triplets)
    scored = [(*pair, 5) for pair in alike] + [(*pair, draw.choice((0, 0.5))) for pair in others]
    write_rows(folder / "scored.tsv", ("sentence1", "sentence2", "score"), scored)
    inferences = [(*pair, "entailment") for pair in alike] + [(*alike[0][:1], others[0][1], "contradiction")]
    write_rows(folder / "nli.tsv", ("sentence1", "sentence2", "gold_label"), [*inferences, ("he", "she", "neutral")])
    write_rows(folder / "classes.tsv", ("text", "label"), [(first, first.split()[0]) for first, _ in alike])
    write_rows(folder / "alike.tsv", ("anchor", "positive"), [("he is", text) for text, _ in alike])
    (folder / "texts.txt").write_text("".join(f"{first}\n" for first, _ in alike), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """An untrained model."""
    keras.utils.set_random_seed(1)
    return write_model(
        tmp_path_factory.mktemp("start"), PretrainingModel(make_config(hidden_size=16, num_hidden_layers=1)), TOKENS
    )


@pytest.fixture
def run(tmp_path, data_dir, start):
    """Return a function of actions and flag changes that runs the program."""

    def run(*actions, **changes):
        given = {
            "init_checkpoint": start,
            "output_dir": tmp_path / "out",
            "max_seq_length": 12,
            "train_batch_size": 8,
            "learning_rate": 0.003,
            "max_steps": 4,
            **{name: data_dir / value if name.endswith("_file") else value for name, value in changes.items()},
        }
        return tiny_classes.run(given, *(f"do_{name}" for name in actions), program=run_sentence_vectors)

    return run


def test_it_learns_stores_and_predicts(run, tmp_path, data_dir, capsys):
    before = run("eval", eval_file="scored.tsv", output_dir=tmp_path / "before", max_steps=None)
    changes = {"train_file": "pairs.tsv", "eval_file": "scored.tsv", "max_steps": 60, "prefix": "the "}
    metrics = run("train", "eval", "predict", predict_file="texts.txt", **changes)
    assert metrics["spearman"] > 0.6 > before["spearman"]
    settings = json.loads((tmp_path / "out" / "model" / "task.json").read_text())
    stored = {name: settings[name] for name in ("task", "pooling", "normalize", "prefix", "layer", "max_seq_length")}
    expected = {"task": "vectors", "pooling": "mean", "normalize": True, "prefix": "the ", "layer": -1}
    assert stored == {**expected, "max_seq_length": 12}
    texts = (data_dir / "texts.txt").read_text().splitlines()
    vectors = np.load(tmp_path / "out" / "vectors.npy")
    model = open_model(tmp_path / "out")
    np.testing.assert_allclose([answer.vector for answer in model(texts)], vectors, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert model([(texts[0], texts[1])])[0].cosine == pytest.approx(vectors[0] @ vectors[1], abs=1e-5)
    capsys.readouterr()
    predict.main(["predict.py", f"--model_dir={tmp_path / 'out'}", "--similarity", "--json", texts[0], texts[1]])
    [line] = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert answer["cosine"] == pytest.approx(vectors[0] @ vectors[1], abs=1e-5)


@pytest.mark.usefixtures("no_graphs")
def test_columns_that_were_given_are_those_of_predictions(run, tmp_path, capsys):
    write_rows(
        tmp_path / "odd.tsv", ("text", "query", "hit"), [("noise", "he is", "she was"), ("noise", "paris", "he")]
    )
    run("train", train_file=tmp_path / "odd.tsv", text_columns="query,hit", max_steps=1, train_batch_size=2)
    capsys.readouterr()
    texts = {
        "--nosimilarity": [("he is", None), ("paris", None)],
        "--similarity": [("he is", "she was"), ("paris", "he")],
    }
    for option, expected in texts.items():
        model, file = f"--model_dir={tmp_path / 'out' / 'model'}", f"--input_file={tmp_path / 'odd.tsv'}"
        predict.main(["predict.py", model, file, "--json", option])
        answers = answers_in(capsys.readouterr().out)
        assert [(answer["text"], answer.get("text_pair")) for answer in answers] == expected


@pytest.mark.usefixtures("no_graphs")
def test_pairs_of_training_are_warned_of_in_the_evaluation(run, tmp_path, capsys):
    rows = [("he is", "she was", 1), ("paris", "london", 3), ("he", "walking", 2)]
    names = ("sentence1", "sentence2", "score")
    write_rows(tmp_path / "train.tsv", names, rows)
    write_rows(tmp_path / "dev.tsv", names, [("hungry", "he", 1), ("London", "paris", 2), rows[0]])
    files = {"train_file": tmp_path / "train.tsv", "eval_file": tmp_path / "dev.tsv"}
    run("train", "eval", **files, max_steps=1, train_batch_size=2)
    told = "2 of 3, such as dev.tsv line 3 (the same as train.tsv line 3)"
    out = capsys.readouterr().out.replace("\n    ", " ")
    assert f"texts to evaluate on that the training data also have: {told}" in out


@pytest.mark.slow  # six runs
@pytest.mark.parametrize(
    ("train_file", "eval_file", "metric", "line"),
    [
        ("triplets.tsv", "pairs.tsv", "mrr_at_10", "loss: rank the second text of a pair first, among the texts of 8"),
        ("scored.tsv", "triplets.tsv", "recall_at_1", "and a score of 5 is a cosine of 1"),
        ("nli.tsv", "classes.tsv", "v_measure", "nli.tsv: 32 entailed pairs of 34 inferences, of which"),
        ("texts.txt", "scored.tsv", "pearson", "loss: recognize the same text, among the texts of 8 examples"),
    ],
)
@pytest.mark.usefixtures("no_graphs")
def test_the_columns_decide_the_loss_and_the_metrics(run, capsys, train_file, eval_file, metric, line):
    metrics = run("train", "eval", train_file=train_file, eval_file=eval_file)
    assert 0 < metrics[metric] <= 1
    assert line in capsys.readouterr().out


@pytest.mark.usefixtures("no_graphs")
def test_an_interrupted_run_with_micro_batches_resumes_exactly(run, tmp_path, monkeypatch):
    changes = {"train_file": "triplets.tsv", "gradient_accumulation_steps": 2, "log_steps": 1}
    run("train", **changes)
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        run("train", **changes, output_dir=tmp_path / "again")
    run("train", **changes, output_dir=tmp_path / "again")
    whole, again = (open_checkpoint(tmp_path / name / "model") for name in ("out", "again"))
    for name in whole.names:
        np.testing.assert_array_equal(again.read(name), whole.read(name), err_msg=name)
    assert rows_of(tmp_path / "again") == rows_of(tmp_path / "out")


@pytest.mark.slow  # a call of the program
@pytest.mark.usefixtures("no_graphs")
def test_from_python(tmp_path, start):
    pairs = [("paris is", "paris was"), ("he is", "he was"), ("she is", "she was"), ("london is", "london was")]
    trained = train_sentence_vectors(
        pairs,
        [
            {"sentence1": "paris", "sentence2": "he", "score": 0.0},
            {"sentence1": "paris", "sentence2": "is", "score": 1},
        ],
        ["paris", "he"],
        output_dir=tmp_path / "run",
        init_checkpoint=start,
        train_batch_size=4,
        max_steps=2,
        max_seq_length=8,
        verbose=False,
    )
    assert set(trained.metrics or ()) == {"pearson", "spearman"}
    vectors = [answer.vector for answer in trained.predictor()(["paris", "he"])]
    np.testing.assert_allclose(trained.predictions, vectors, atol=1e-5)


@pytest.mark.parametrize(
    ("actions", "changes", "message"),
    [
        (("train",), {}, "do_train needs train_file; give the file"),
        (("eval",), {"eval_file": "texts.txt"}, "has only texts; give scored pairs, pairs, or texts and their classes"),
        (
            ("train",),
            {"train_file": "classes.tsv", "text_columns": "text,label,text", "score_column": "text"},
            "scores",
        ),
        (("train",), {"train_file": "scored.tsv", "label_column": "score"}, 'the column "score" has 0, but labels of'),
        (("train",), {"train_batch_size": 1, "train_file": "pairs.tsv"}, "train_batch_size=1 leaves nothing to rank"),
        (
            ("train", "eval"),
            {"train_batch_size": "8,1", "train_file": "texts.txt", "eval_file": "pairs.tsv"},
            "leaves nothing to rank",
        ),
        (
            ("train",),
            {"train_file": "scored.tsv", "scale": 30},
            "scale does not apply: pairs with scores",
        ),
        (
            ("train",),
            {"train_file": "pairs.tsv", "max_score": 4},
            "max_score does not apply: train_fil",
        ),
        (
            ("train",),
            {"train_file": "pairs.tsv", "freeze_layers": 1},
            "freeze_layers=1 freezes all weights that the loss",
        ),
        (
            ("train",),
            {"train_file": "pairs.tsv", "new_head": True},
            "new_head does not apply: this task has no head",
        ),
        (("train",), {"train_file": "alike.tsv"}, "alike.tsv: all examples have the same first or the same second"),
        (("train",), {"train_file": "scored.tsv", "pack": True}, "pack does not apply: an exa"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(run, tmp_path, actions, changes, message):
    with pytest.raises(ValueError, match=r".") as error:
        run(*actions, **changes)
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_the_vector_of_cls_is_refused_for_a_model_that_reads_left_to_right(run, tmp_path):
    decoder = write_model(tmp_path / "decoder", PretrainingModel(make_config(is_decoder=True)), TOKENS)
    message = r"^the model reads left to right .* is the same for all texts; choose another pooling, such as mean$"
    with pytest.raises(ValueError, match=message):
        run("train", train_file="pairs.tsv", init_checkpoint=decoder, pooling="cls")
    with pytest.raises(ValueError, match="^the model reads left to right"):
        SentenceModel(make_config(is_decoder=True), "cls")
