"""Training of rerankers: the data, the loss, mined texts, and runs from files to a model that sorts."""

import json
import pathlib
import types

import keras
import numpy as np
import pytest
from known_models import TOKENS, make_config, write_model

from bert_keras import FullTokenizer, Reranker, train_reranker, train_sentence_vectors
from bert_keras.data_prep.text.same_text import find_shared
from bert_keras.modeling import PretrainingModel
from bert_keras.tasks.reranking.data import NO_TEXT, Queries, list_features, pair_features, read_queries
from bert_keras.tasks.reranking.losses import ListwiseLoss
from bert_keras.tasks.reranking.mining import mine_negatives
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.reranking.task import Reranking
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.vectors.data import read_file

WORDS = ["paris", "london", "france", "he", "she", "walk", "hungry", "capital"]
# A text that fits has the word "is".
ROWS = [
    {"query": f"{word} {other}", "positive": f"{other} is", "negative": f"{word} was", "negative_2": f"{other} ate"}
    for word in WORDS
    for other in WORDS
    if other != word
]
SCORES = [
    {"query": row["query"], "text": row[name], "score": 2.0 * (name == "positive")}
    for row in ROWS
    for name in ("positive", "negative", "negative_2")
]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """An untrained model."""
    keras.utils.set_random_seed(1)
    config = make_config(hidden_size=16, num_hidden_layers=1)
    return write_model(tmp_path_factory.mktemp("start"), PretrainingModel(config), TOKENS)


@pytest.fixture
def train(tmp_path, start):
    """Return a function of settings that trains a reranker in the folder `run`."""

    def train(*data, **settings):
        given = {"max_seq_length": 16, "train_batch_size": 8, "learning_rate": 3e-3, "verbose": False}
        given |= {"eval_batch_size": 64, "predict_batch_size": 64}
        given |= {"output_dir": tmp_path / "run", "init_checkpoint": start}
        return train_reranker(*data, **(given | settings))

    return train


def test_queries_of_training_are_found_in_the_evaluation(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("query,positive,negative\nwho is he,a,b\nwho is she,c,d\nwho is he,e,f\n")
    other = tmp_path / "b.csv"
    other.write_text("query,positive,negative\nwhere,a,b\nWho  is she,x,y\n")
    settings = RerankerSettings()
    train, evaluated = (read_queries(str(path), settings).placed for path in (table, other))
    assert find_shared([one.key for one in evaluated], [one.key for one in train]) == [(1, 1)]
    assert [one.place for one in train] == ["a.csv line 2", "a.csv line 3"]


def test_a_list_has_a_text_for_each_row(tmp_path):
    """Also of vectors, of texts without scores, and under other names."""
    positive, texts, other = (tmp_path / f"{name}.jsonl" for name in ("positive", "texts", "other"))
    rows = ("a", ["b", "c"], ["d"]), ("e", "f", [])
    positive.write_text("".join(f"{json.dumps(dict(zip(ROWS[0], row, strict=False)))}\n" for row in rows))
    short = tmp_path / "short.jsonl"
    short.write_text("".join(f"{json.dumps(dict(zip(('query', 'pos', 'neg'), row, strict=True)))}\n" for row in rows))
    texts.write_text('{"query": "a", "texts": ["b", "c"]}\n')
    other.write_text('{"q": "a", "found": ["b", "c"], "score": 2}\n')
    settings, named = RerankerSettings(), RerankerSettings(text_column="q", text_pair_column="found")
    assert read_file(Table(positive)).rows == [("a", "b", "d"), ("a", "c", "d"), ("e", "f")]
    assert read_file(Table(short)).rows == read_file(Table(positive)).rows
    assert read_queries(str(positive), settings).texts == {"a": {"b": 1, "d": 0, "c": 1}, "e": {"f": 1}}
    assert read_queries(str(texts), settings, has_relevance=False).rows == [("a", "b"), ("a", "c")]
    assert read_queries(str(other), named).texts == {"a": {"b": 2, "c": 2}}


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ({}, {"b": 1, "c": 0, "d": 0}),
        ({"choice_columns": ("negative_2",)}, {"b": 1, "d": 0}),
        ({"label_column": "stars"}, {"b": 3}),
    ],
)
def test_texts_that_do_not_fit_are_found_beside_named_ones(tmp_path, given, texts):
    path = tmp_path / "a.csv"
    path.write_text("q,found,negative,negative_2,stars\na,b,c,d,3\n")
    settings = RerankerSettings(text_column="q", text_pair_column="found", **given)
    assert read_queries(str(path), settings).texts == {"a": texts}
    path.write_text("negative,a,b\nc,d,e\n")
    settings = RerankerSettings(text_column="0", text_pair_column="1", has_header="false", **given)
    if not given:
        assert read_queries(str(path), settings).texts == {"negative": {"a": 1}, "c": {"d": 1}}


@pytest.mark.parametrize(
    ("loss", "activation", "rows"),
    [
        ("bce", "sigmoid", SCORES),
        ("listwise", "identity", ROWS),
        pytest.param("bce", "sigmoid", ROWS, marks=pytest.mark.slow),
        pytest.param("listwise", "identity", SCORES, marks=pytest.mark.slow),
    ],
    ids=["bce of scores", "listwise of negatives", "bce of negatives", "listwise of scores"],
)
def test_a_trained_model_sorts(train, loss, activation, rows):
    trained = train(rows, ROWS, SCORES, rerank_loss=loss, num_train_epochs=6)
    assert trained.metrics["mrr_at_10"] > 0.9
    assert set(trained.metrics) == {"loss", "mrr_at_10", "ndcg_at_10", "recall_at_10"}
    rerank = trained.predictor()
    assert isinstance(rerank, Reranker)
    assert rerank.settings["activation"] == activation
    assert rerank("paris he", ["london was", "he is", "he ate"]).texts[0].text == "he is"
    alone = rerank([(row["query"], [row["text"]]) for row in SCORES])
    expected = [each.score for ranking in alone for each in ranking.texts]
    np.testing.assert_allclose(trained.predictions, expected, atol=1e-5)
    lines = pathlib.Path(trained.folder, "eval_predictions.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["query", "text", "relevance", "score"]
    assert len(lines) == 1 + len({(row["query"], row["text"]) for row in SCORES})


@pytest.mark.usefixtures("no_graphs")
def test_a_trained_model_is_evaluated_with_its_own_loss(train):
    trained = train(ROWS, ROWS, rerank_loss="bce", max_steps=4)
    again = train(None, ROWS, init_checkpoint=None)
    assert again.metrics == pytest.approx(trained.metrics, abs=1e-5)


@pytest.mark.usefixtures("no_graphs")
def test_rows_may_be_tuples(train):
    rows = [(row["query"], row["text"], row["score"]) for row in SCORES]
    of_tuples, of_dicts = train(rows, None, [row[:2] for row in rows], max_steps=1), train(SCORES, max_steps=1)
    assert len(of_tuples.predictions) == len(rows)
    assert of_tuples.settings["train_file"] == of_dicts.settings["train_file"]


@pytest.mark.usefixtures("no_graphs")
def test_packed_rows_train_the_same(train):
    found = train(ROWS, ROWS, rerank_loss="bce", max_steps=4, pack=True)
    assert np.isfinite(found.metrics["loss"])


def test_the_loss_of_lists_ignores_missing_texts():
    logits = np.array([[1.0, 2.0, 9.0], [0.5, 0.25, -1.0]], np.float32)
    relevance = np.array([[1, 0, NO_TEXT], [1, 0, 2]], np.float32)
    values = ListwiseLoss(None)._values({"logits": logits}, {"label_values": relevance})
    first = np.log(np.exp(1) + np.exp(2)) - 1
    shares = np.exp(logits[1]) / np.exp(logits[1]).sum()
    second = -(np.log(shares[0]) + 2 * np.log(shares[2])) / 3
    np.testing.assert_allclose(values["loss"], [first, second], rtol=1e-6)
    np.testing.assert_array_equal(values["accuracy"], [0, 1])


def test_the_features_of_lists():
    tokenizer = FullTokenizer(TOKENS)
    queries = Queries("file", {"he": {"she": 1.0, "ate": 0.0}, "she": {"he": 0.0}, "ate": {"he": 2.0}}, [])
    features = list_features(queries, tokenizer, 8, "the data")
    assert features["label_values"].tolist() == [[1, 0], [2, NO_TEXT]]
    expected = pair_features([("he", "she"), ("he", "ate"), ("ate", "he"), ("ate", "he")], tokenizer, 8, "the data")
    for name, values in expected.items():
        np.testing.assert_array_equal(features[name].reshape(4, 8), values)


class Places:
    """A model for vectors in which the texts lie on a circle in the order of their numbers."""

    def pipe(self, texts):
        for text in texts:
            angle = float(text.split()[-1]) / 10
            yield type("Answer", (), {"vector": [np.cos(angle), np.sin(angle)]})


def test_mined_texts_are_the_nearest_ones_that_are_not_the_own():
    texts = {
        "query 0": {"text 1": 1.0, "text 9": 0.0},
        "query 2": {"Text  1": 1.0},
        "query 3": {"text 3": 1.0, "text 4": 1.0},
    }
    found = mine_negatives(Queries("file", texts, []), Places(), 2).texts
    assert found == {
        "query 0": {"text 1": 1.0, "text 9": 0.0, "text 3": 0.0, "text 4": 0.0},
        "query 2": {"Text  1": 1.0, "text 3": 0.0, "text 4": 0.0},
        "query 3": {"text 3": 1.0, "text 4": 1.0, "text 1": 0.0, "text 9": 0.0},
    }
    assert list(found["query 2"]) == ["Text  1", "text 3", "text 4"]


@pytest.mark.usefixtures("no_graphs")
def test_a_run_mines_for_training_and_for_an_evaluation_without_wrong_texts(train, start, messages, tmp_path):
    rows = [{"query": row["query"], "positive": row["positive"]} for row in ROWS]
    vectors = tmp_path / "vectors"
    train_sentence_vectors(
        [("paris", "paris is"), ("he", "she")],
        output_dir=vectors,
        init_checkpoint=start,
        max_steps=1,
        verbose=False,
        train_batch_size=2,
        max_seq_length=8,
    )
    trained = train(rows, rows, max_steps=2, mine_negatives=str(vectors), num_mined_negatives=3)
    assert sum("hard negatives that were added, up to 3 for a query: 168" in line for line in messages) == 2
    lines = pathlib.Path(trained.folder, "eval_predictions.tsv").read_text().splitlines()
    assert len(lines) == 1 + 4 * len(rows)


def test_a_command_without_mined_texts_does_not_open_their_model(tmp_path):
    """Such a command has --mine_negatives from its run, and the model may be gone."""
    table, gone = tmp_path / "a.csv", str(tmp_path / "gone")
    table.write_text("query,positive,negative\nwho is he,he,she\n")
    files = types.SimpleNamespace(tokenizer=FullTokenizer(TOKENS))
    stored = {"activation": "identity"}
    for name, action in (("eval_file", "do_eval"), ("predict_file", "do_predict")):
        settings = RerankerSettings(output_dir="", mine_negatives=gone, **{name: str(table), action: True})
        task = Reranking(settings, files, stored)
        assert getattr(task, name.replace("file", "features"))["input_ids"].shape == (2, 1, 128)


def test_columns_may_be_numbers_of_python(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("who is he,a,2\nwho is he,b,0\n")
    columns = {"text_column": 0, "text_pair_column": 1, "label_column": 2, "has_header": "false"}
    settings = RerankerSettings.from_arguments("train_reranker", columns)
    assert read_queries(str(table), settings).texts == {"who is he": {"a": 2.0, "b": 0.0}}


ONE = [{"query": "he", "positive": "she"}]
MISTAKES = [
    (
        (ONE,),
        {},
        r"^train_data: all texts fit their queries, but training needs texts that do not; give columns with them "
        r"\(choice_columns\), scores of 0 \(label_column\), or mine_negatives$",
    ),
    ((ROWS, ONE), {}, "all texts fit their queries, so every model would be perfect; give texts that do not fit, or"),
    ((ROWS, [{"query": "he", "text": "a", "score": 0}]), {}, 'the query "he" has no text that fits; add one, or'),
    (([{"query": "he", "text": "a", "score": 0}],), {}, "no text fits its query; give texts with a score above 0"),
    (([{"query": "he", "text": "a", "score": -1}],), {}, "a score is -1, but scores of texts must be 0"),
    (
        ([{"query": "he", "text": "a", "stars": 1}, {"query": "he", "text": "b", "stars": 0}],),
        {},
        'column "stars" may say which pairs are similar, but its name is unusual; give label_column=stars for',
    ),
    (
        ([{"query": "he", "text": "a", "class": "x"}],),
        {},
        "to take it as scores, give label_column=class; to take all pairs as similar, name the texts with text_column "
        "and text_pair_column$",
    ),
    (([{"query": "he", "hit": "a"}],), {}, "name them with text_column and text_pair_column"),
    (([{"text": "he"}],), {}, "no column of texts for the queries; name the columns with text_column and text_pair"),
    ((ROWS,), {"text_column": "query"}, "need a column each; give both text_column and text_pair_column"),
    ((ROWS, ROWS), {"metric": "f1"}, "metric=f1 is not one of the metrics of such data: mrr_at_10, ndcg_at_10, recall"),
    ((ROWS,), {"pack": True}, "pack does not apply: the texts of a query are rows that are"),
    ((ROWS,), {"label_smoothing": 0.1}, "label_smoothing does not apply: the listwise loss"),
]


@pytest.mark.parametrize(("data", "settings", "message"), MISTAKES)
def test_mistakes(train, data, settings, message):
    with pytest.raises(ValueError, match=message):
        train(*data, **{"rerank_loss": "listwise", **settings})


@pytest.mark.usefixtures("no_graphs")
def test_the_highest_score_of_a_text_counts(train, messages):
    rows = [*ROWS, ROWS[0] | {"negative": ROWS[0]["positive"]}]
    train(rows, ROWS, max_steps=1)
    assert any(
        "rows whose text has another score in another row, of which the highest counts: 1" in m for m in messages
    )
