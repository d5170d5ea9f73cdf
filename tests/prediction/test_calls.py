"""The arguments of a call: columns of tables, options, other names of labels, a device; and the warm-up."""

import numpy as np
import pytest
from fine_tuned_models import (
    FINE_TUNED,
    TAGS,
    fixed_classifier,
    random_classifier,
    word_tagger,
    write_fine_tuned,
)
from known_models import random_model, write_model

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.modeling import ClassifierModel, read_config
from bert_keras.prediction import (
    EntityTagger,
    FeatureExtractor,
    FillMask,
    QuestionAnswerer,
    TextClassifier,
    open_model,
)

TEXTS = ["he was hungry", "paris", "so he ate ."]
LOGITS = (0.0, np.log(2), np.log(5))


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Return a function that writes the run of a model for a task."""

    def write(task, model=None, **changes):
        make_model, settings = FINE_TUNED[task]
        return write_fine_tuned(tmp_path_factory.mktemp(task), model or make_model(), task, **(settings | changes))

    return write


@pytest.fixture(scope="module")
def run(make):
    return make("classification", random_classifier(3, num_hidden_layers=1), is_pair=False)


@pytest.fixture(scope="module")
def classify(run):
    return TextClassifier(run)


@pytest.fixture(scope="module")
def answerer(make):
    return QuestionAnswerer(make("question_answering"))


def test_groups_of_batches_grow(classify, monkeypatch):
    sizes, run_batch = [], classify.network._run
    monkeypatch.setattr(classify.network, "is_on_cpu", False)  # which runs two batches at a time, in any order
    monkeypatch.setattr(classify.network, "_run", lambda rows, *rest: sizes.append(len(rows)) or run_batch(rows, *rest))
    answers = list(classify.pipe(["paris"] * 9, 2))
    assert len(answers) == len(classify(["paris"] * 9, batch_size=4)) == 9
    # The first group of a stream is one batch, the next is two; the texts of a call are one group.
    assert sizes == [2, 2, 2, 2, 1, 4, 4, 1]
    assert classify.num_traces == 1


def test_columns_of_pandas_are_texts_but_a_table_is_not(classify):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"text": TEXTS}, index=[7, 8, 9])
    for texts in (table["text"], table["text"].astype("category"), pandas.Index(TEXTS)):
        assert [answer.text for answer in classify(texts)] == TEXTS
    with pytest.raises(ValueError, match="^texts is of type DataFrame, but an iterable of texts is needed; give a col"):
        classify(table)


@pytest.mark.usefixtures("no_graphs")
def test_the_most_probable_labels(make):
    classify = TextClassifier(make("classification", fixed_classifier(*LOGITS), is_pair=False))
    shares = {"bad": 1 / 8, "good": 2 / 8, "\u00fc": 5 / 8}
    assert classify("he").probabilities == pytest.approx(shares)
    best = classify("he", top_k=2).probabilities
    assert list(best) == ["\u00fc", "good"]
    assert best == pytest.approx({"\u00fc": 5 / 8, "good": 2 / 8})
    assert list(TextClassifier(classify.folder, top_k=1)("he").probabilities) == ["\u00fc"]


@pytest.mark.usefixtures("no_graphs")
def test_the_threshold_of_labels_that_apply(make):
    run = make("multi_label", fixed_classifier(*LOGITS))
    classify = TextClassifier(run, threshold=0.7)
    assert classify("he").labels == ["\u00fc"]
    assert classify("he", threshold=np.float32(0.6), batch_size=np.int64(1)).labels == ["good", "\u00fc"]
    assert classify("he", threshold=0.6, top_k=1).labels == ["good", "\u00fc"]
    assert TextClassifier(run)("he").labels == ["bad", "good", "\u00fc"]
    assert classify("he", threshold=1).labels == []


@pytest.mark.usefixtures("no_graphs")
def test_entities_below_the_threshold_are_left_out(make):
    tag = EntityTagger(make("token_classification", word_tagger({"paris": "B-LOC", "he": "B-PER"})))
    [he, paris] = tag("he is paris").entities
    assert he.probability == pytest.approx(paris.probability)
    assert tag("he is paris", threshold=he.probability * 0.99).entities == [he, paris]
    above = tag("he is paris", threshold=min(1.0, he.probability * 1.01))
    assert above.entities == []
    assert [word.tag for word in above.words] == ["B-PER", "O", "B-LOC"]


def test_answers_have_a_threshold_and_a_number_of_spans(answerer):
    question = ("who ate", "he was hungry so she ate the capital of france")
    answer = answerer(question)
    assert (len(answer.n_best) > 3, answer.null_threshold) == (True, 0.0)
    assert answerer(question, top_k=2).n_best == answer.n_best[:2]
    none, some = (answerer(question, threshold=answer.null_odds + change) for change in (-1.0, 1.0))
    assert (none.is_impossible, some.is_impossible) == (True, False)
    assert none.null_threshold == answer.null_odds - 1
    assert some.text == next(span.text for span in answer.n_best if span.start is not None)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("regression", {"top_k": 1}, "^top_k is not an option of TextClassifier for regression; its options are why$"),
        (
            "classification",
            {"threshold": 0.5},
            "^threshold is not an option of TextClassifier for classification; its ",
        ),
        ("classification", {"top_k": 4}, "^top_k is 4, but must be from 1 to the number of the model's labels, 3$"),
        ("classification", {"top_k": True}, "^top_k is True, but must be from 1 to"),
        (
            "classification",
            {"coverage": 0.9},
            "^coverage needs a model that was trained with calibrate, and this one was",
        ),
        ("multi_label", {"coverage": 0.9}, "^coverage is not an option of TextClassifier for multi_label; its options"),
        ("multi_label", {"threshold": 50}, "^threshold is 50, but must be a number from 0 to 1$"),
        ("token_classification", {"threshold": "high"}, "^threshold is 'high', but must be a number from 0 to 1$"),
        ("question_answering", {"threshold": float("nan")}, "^threshold is nan, but must be a number$"),
        ("question_answering", {"top_k": 21}, "^top_k is 21, but must be from 1 to the model's n_best_size of 20$"),
        ("multiple_choice", {"candidates": []}, "^candidates is not an option of ChoicePicker for multiple_choice; it"),
    ],
)
def test_mistakes_in_options(make, task, options, message):
    run = make(task)
    with pytest.raises(ValueError, match=message):
        open_model(run, **options)
    predictor = open_model(run)
    with pytest.raises(ValueError, match=message):
        predictor.pipe([], **options)
    assert predictor([]) == []


@pytest.mark.usefixtures("no_graphs")
def test_labels_can_have_other_names(make, run, classify):
    assert classify.labels == ["bad", "good", "\u00fc"]
    expected = list(classify("paris").probabilities.values())
    for labels in (["no", "good", "yes"], {"bad": "no", "\u00fc": "yes"}, np.array(["no", "good", "yes"])):
        renamed = TextClassifier(run, labels=labels)
        assert renamed.labels == ["no", "good", "yes"]
        assert {*map(type, renamed.labels)} == {str}
        assert renamed("paris").probabilities == pytest.approx(dict(zip(renamed.labels, expected, strict=True)))
    tag = EntityTagger(make("token_classification", word_tagger({"paris": "B-LOC"})), labels={"LOC": "place"})
    assert tag.labels == ["place", "PER"]
    [entity] = tag("paris").entities
    assert (entity.text, entity.type) == ("paris", "place")
    assert open_model(make("regression")).labels == []


@pytest.mark.parametrize(
    ("task", "labels", "message"),
    [
        ("classification", {"ugly": "b"}, "^labels has 'ugly', but the model's labels are bad, good, \u00fc$"),
        ("classification", ["a", "b"], r"^labels is \['a', 'b'\], but a different str is needed for each of the 3 lab"),
        ("classification", ["a", "b", "a"], "^labels is .* a different str is needed for each of the 3 labels: bad, "),
        ("classification", {"bad": "good"}, r"^labels is \['good', 'good', '\u00fc'\], but a different str is needed"),
        ("classification", "abc", "^labels is 'abc', but a different str is needed"),
        ("classification", 5, "^labels is 5, but a different str is needed for each of the 3 labels"),
        ("classification", [1, 2, 3], r"^labels is \[1, 2, 3\], but a different str is needed"),
        ("regression", ["a"], "^a model for regression has no labels; leave out labels$"),
        (
            "token_classification",
            TAGS,
            "^labels is .*, but a different str is needed for each of the 2 labels: LOC, PER",
        ),
    ],
)
def test_mistakes_in_labels(make, task, labels, message):
    with pytest.raises(ValueError, match=message):
        open_model(make(task), labels=labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: open_model(5), "^a path is 5, of type int; give a str, or a pathlib.Path$"),
        (lambda run: open_model(None), "^a path is None, of type NoneType; give a str, or a pathlib.Path$"),
        (lambda run: open_model(" "), '^the path of the model is " "; give its folder$'),
        (
            lambda run: open_model(run, limits={"max_chars": 5}),
            "^limits is {'max_chars': 5}, but must be Limits",
        ),
        (lambda run: FullTokenizer(["[UNK]"], "no"), "^do_lower_case is 'no', but must be True or False$"),
        (lambda run: FullTokenizer(5), "^the vocabulary is 5; give a list of tokens, or the path of a vocab.txt$"),
        (
            lambda run: ClassifierModel(read_config(run / "model"), 0),
            "^num_classes is 0, but must be a whole",
        ),
        (lambda run: FeatureExtractor(run, layers=5), r"^layers is 5, but must be a list, such as \[-1\]$"),
        (lambda run: FeatureExtractor(run, max_seq_length="9"), "^max_seq_length is '9', but must be from 3 to the "),
        (
            lambda run: FeatureExtractor(run, strategy="all"),
            "^strategy is 'all', but must be a tf.distribute",
        ),
        (lambda run: open_model(run).warmup(8), "^lengths is 8, but must be a list of whole numbers$"),
        (lambda run: open_model(run).num_tokens(8), "^the text is of type int, but a str is needed$"),
        (
            lambda run: open_model(run)(["a"], sources=5),
            "^sources is 5, but must be a list with a name",
        ),
    ],
)
@pytest.mark.usefixtures("no_graphs")
def test_values_of_other_types_are_refused_at_the_call(run, call, message):
    with pytest.raises(ValueError, match=message):
        call(run)


@pytest.mark.usefixtures("no_graphs")
def test_values_of_numpy_are_those_of_python(run):
    assert FeatureExtractor(run, max_seq_length=np.int64(12)).max_seq_length == 12
    assert FullTokenizer(["[UNK]", "a"], np.True_).encode("A") == [1]
    assert ClassifierModel(read_config(run / "model"), np.int64(2))


def test_a_warm_model_needs_no_trace_for_any_length(run, answerer, tmp_path):
    pretrained = write_model(tmp_path, random_model(num_hidden_layers=1))
    fill_mask = FillMask(pretrained).warmup()
    assert fill_mask.num_traces == 1
    fill_mask(["[MASK]", "is " * 20 + "[MASK]", "is " * 37 + "[MASK]"], candidates=["paris"])
    assert fill_mask.num_traces == 1
    vectors = FeatureExtractor(pretrained, max_seq_length=40).warmup([2, 17, 20])
    assert vectors.num_traces == 1
    assert TextClassifier(run).warmup().num_traces == answerer.warmup().num_traces == 1
    with pytest.raises(
        ValueError, match="^lengths has 41, but must be whole numbers from 1 to 40, which the model take"
    ):
        vectors.warmup([16, 41])


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("cuda", '^device is "cuda", but must be "cpu", "gpu" or one of several, such as "gpu:1"$'),
        (5, '^device is "5", but must be "cpu"'),
        ("gpu:first", '^device is "gpu:first", but must be "cpu"'),
        (
            "gpu:99",
            r'^device is "gpu:99", but TensorFlow finds (no|\d+) GPUs? here; leave it out to use what there is$',
        ),
        ("cpu:99", '^device is "cpu:99", but TensorFlow finds 1 CPU here; leave it out'),
    ],
)
def test_mistakes_in_devices(run, device, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier(run, device=device)


def test_a_model_runs_on_the_device_that_it_was_given(classify, run):
    on_cpu = TextClassifier(run, device="CPU")
    assert {weight.value.device[-5:] for weight in on_cpu.model.weights} == {"CPU:0"}
    assert on_cpu("paris").probabilities == pytest.approx(classify("paris").probabilities, abs=1e-6)
    graph = on_cpu.network._compiled.graph
    assert {op.device for op in graph.get_operations() if op.type == "MatMul"} == {"/device:CPU:0"}
