"""The duties of every predictor: a new one needs one row in CASES."""

import collections
import concurrent.futures
import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rounding
from fine_tuned_models import FINE_TUNED, OF_VECTORS, write_fine_tuned
from known_models import random_model, randomise, small_config, write_model

from bert_keras import tasks
from bert_keras.modeling import ReplacedTokenModel, SentenceModel
from bert_keras.prediction import (
    FeatureExtractor,
    FillMask,
    Limits,
    NextSentence,
    ReplacedTokenFinder,
    SentenceScorer,
    Unanswered,
    open_model,
)

TEXTS = ["he was hungry", "paris", "so he ate ."]
PAIRS = [("he was hungry", "so he ate ."), ("paris", "is the capital"), ("a", "b")]
# No two scores of a query are almost equal: the size of a batch changes the last digits, and they then sort otherwise.
QUERIES = [("he was", ["so he ate", "paris"]), ("paris is", ["a b"]), ("she", ["paris is", "a b", "he"])]
CHOICES = [("he was hungry", ["so he ate", "paris"]), ("paris is", ["a b", "c d"]), ("she", ["a", "b", "c"])]
LONGER = "more than the 38 that the model takes; make it shorter, or"
NO_MASK = r"has no \[MASK\]: "
NO_PAIR = "but a pair of two texts is needed"
NO_CHOICES = "is .* but a text and a list of two or more choices are needed$"
NO_LIST = "is .* but a query and a list of one or more texts are needed$"
NO_TEXT = "is .*, but a str is needed, or a tuple of two for a pair$"
NO_WORD = "has no word in its text; give a text$"
NONE = "is of type NoneType, but a str is needed$"


def flat(answer):
    return rounding.flat(answer, tolerance=1e-5)


@dataclasses.dataclass(frozen=True)
class Case:
    """A predictor, three texts that it answers differently, and values that it refuses, with the reasons."""

    texts: list[Any]
    mistakes: list[tuple[Any, str]]
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)  # of the settings of its task, or arguments
    class_: Callable[..., Any] = open_model


CASES = {
    "classification": Case(
        TEXTS,
        [
            *(("", NO_WORD), (" \n", NO_WORD), ("\u200b\u3164\ufe0f", NO_WORD), (None, NONE)),
            *((5, "is of type int, but a str is needed$"), (np.nan, "is of type float, but a str is needed$")),
            (("he", "was"), r"is \('he', 'was'\), but the model takes single texts; give one str, or"),
        ],
        {"is_pair": False},
    ),
    "classification of pairs": Case(
        PAIRS,
        [
            ("he was", f"is 'he was', {NO_PAIR}: first text and second text$"),
            ((" ", "he"), "has no word in its first text; give a first text$"),
            *((("he", None), NONE), (("he", "was", "so"), f"is .*, {NO_PAIR}")),
        ],
    ),
    "multiple_choice": Case(
        CHOICES,
        [
            *((value, NO_CHOICES) for value in ("he was", ("he was", "so"), ("he", ["so"]))),
            *((("", ["a", "b"]), NO_WORD), (("he", ["a", " "]), "has no word in its choice 2; give a choice 2$")),
            (("he", ["a"] * 1001), "has 1,001 choices, but max_sequences is 1,000; make it shorter, or raise"),
        ],
    ),
    "rerank": Case(
        QUERIES,
        [
            *((value, NO_LIST) for value in ("he was", ("he was", "so"), ("he", []), (None, None))),
            *((("", ["a"]), "has no word in its query; give a query$"), (("he", ["a", None]), NONE)),
            (("he", ["a", " "]), "has no word in its text 2; give a text 2$"),
            (("he", ["a"] * 1001), "has 1,001 texts, but max_sequences is 1,000; make it shorter, or raise"),
        ],
    ),
    "question_answering": Case(
        PAIRS,
        [
            ("where", f"is 'where', {NO_PAIR}: question and context$"),
            (("where", " "), "has no word in its context; give a context$"),
            *((("", "paris"), "has no word in its question; give a question$"), (("where", None), NONE)),
        ],
    ),
    "token_classification": Case(
        TEXTS, [("", NO_WORD), ("\u200b", NO_WORD), (["he"], "is of type list, but a str is needed$")]
    ),
    "vectors": Case(TEXTS, [(" ", NO_WORD), (("paris", " "), "has no word in its second text; give a second text$")]),
    "FillMask": Case(
        [f"{text} [MASK]" for text in TEXTS],
        [
            *(("", rf'{NO_MASK}""; write \[MASK\] where'), (7, "is of type int, but a str is needed")),
            ("he was <mask>", rf'{NO_MASK}"he was <mask>"; write \[MASK\] for <mask>'),
            ("he was [mask]", rf'{NO_MASK}"he was \[mask\]"; write \[MASK\] for \[mask\]'),
            ("a" * 99, rf'{NO_MASK}"{"a" * 57}\.\.\."; write'),
            ("is " * 38 + "[MASK]", f"has 39 tokens, 1 {LONGER}"),
        ],
        class_=FillMask,
    ),
    "NextSentence": Case(
        PAIRS,
        [
            *((("is " * 26, "a " * 26), f"has 52 tokens, 15 {LONGER.replace('38', '37')}"), (("a", None), NONE)),
            *((("", "b"), "has no word in its first text; give two t"), (("a", " \n"), "has no word in its second te")),
            *(("ab", f"is 'ab', {NO_PAIR}, a"), (("a", "b", "c"), rf"is \('a', 'b', 'c'\), {NO_PAIR}, a tuple of two")),
        ],
        class_=NextSentence,
    ),
    "SentenceScorer": Case(
        [TEXTS[0], "she was so", TEXTS[2]],
        [
            *((text, "has no word; give a text to score$") for text in ("", " \x00\t")),
            ("[MASK]", r"has a \[MASK\], but only complete texts can be scored; replace it with"),
            *(("is " * 39, f"has 39 tokens, 1 {LONGER}"), (b"is", "is of type bytes, but a str is needed$")),
        ],
        class_=SentenceScorer,
    ),
    "ReplacedTokenFinder": Case(
        TEXTS,
        [("", "has no word; give a text$"), ("is " * 39, f"has 39 tokens, 1 {LONGER}"), (None, NONE)],
        class_=ReplacedTokenFinder,
    ),
    "FeatureExtractor": Case(
        [TEXTS[0], PAIRS[1], ""],
        [(value, NO_TEXT) for value in (None, b"he", ("he",), ("he", None), ("a", "b", "c"))],
        {"max_seq_length": None},
        FeatureExtractor,
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a function that returns the folder of a model for a case."""
    pretrained = write_model(tmp_path_factory.mktemp("pretrained"), random_model(num_hidden_layers=1))

    def write(name, case):
        if case.class_ is ReplacedTokenFinder:
            electra = randomise(ReplacedTokenModel(small_config(num_hidden_layers=1)))
            return write_model(tmp_path_factory.mktemp("electra"), electra)
        if case.class_ is not open_model:
            return pretrained
        task = name.split()[0]
        if task == "vectors":
            model, settings = randomise(SentenceModel(small_config(num_hidden_layers=1))), OF_VECTORS
        else:
            make, settings = FINE_TUNED[task]
            model = make()
        return write_fine_tuned(tmp_path_factory.mktemp(task), model, task, **(settings | case.changes))

    return write


@pytest.fixture(scope="module")
def predictor_of(folders):
    """Return a function that returns the predictor of a case, with a batch size of 2, and at most 3 texts a call."""
    opened = {}

    def open_(name):
        if name not in opened:
            case = CASES[name]
            options = {"batch_size": 2, "limits": Limits(max_texts=3, max_chars=1100)}
            options |= case.changes if case.class_ is not open_model else {}
            opened[name] = case.class_(folders(name, case), **options)
        return opened[name]

    return open_


@pytest.fixture
def predictor(predictor_of, name):
    return predictor_of(name)


def several_in_containers(texts, takes_pairs):
    """Yields the texts in containers of each kind that has several texts, however the model takes one."""
    yield from (iter(texts), collections.deque(texts), dict(enumerate(texts)).values())
    if not (takes_pairs and isinstance(texts[0], str)):
        yield tuple(texts)
    objects = np.empty(len(texts), object)
    for number, text in enumerate(texts):
        objects[number] = text
    yield objects
    if all(isinstance(text, str) for text in texts):
        yield dict.fromkeys(texts).keys()
    if len({type(part) for text in texts for part in text}) == 1 and len({*map(type, texts)}) == 1:
        yield np.array(texts)
    # [()] makes a scalar of an array of one.
    yield [np.str_(text) if isinstance(text, str) else tuple(np.array(part)[()] for part in text) for text in texts]


TASK_OF = {tasks.predictor_of(task).__name__: task for task in tasks.abilities()}
# Pairs have the class of single texts.
NAMES = [pytest.param(name, marks=[pytest.mark.slow] if name == "classification of pairs" else []) for name in CASES]


def test_every_task_has_a_case():
    classes = {case.class_ for case in CASES.values()}
    of_cases = {tasks.predictor_of(name) for name in CASES if name in tasks.abilities()} | classes
    assert of_cases >= {tasks.predictor_of(task) for task in tasks.abilities()}


@pytest.mark.parametrize("name", NAMES)
class TestEveryPredictor:
    def test_threads_get_the_answers_of_one(self, name, predictor):
        """The threads also begin together, before the first trace."""
        texts, num_calls = CASES[name].texts, 480 if name == "classification" else 48
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: predictor(texts[number % 3]), range(num_calls)))
        assert predictor.num_traces == 1
        expected = [flat(answer) for answer in predictor(texts)]
        assert all(expected[number % 3] == flat(answer) for number, answer in enumerate(answers))

    def test_it_shows_its_folder_task_and_labels_in_one_line(self, name, predictor):
        kind, labels = type(predictor).__name__, predictor.labels
        task = name.split()[0] if CASES[name].class_ is open_model else TASK_OF.get(kind)
        facts = [*([f"task={task!r}"] if task else []), *([f"labels={labels}"] if labels else [])]
        assert repr(predictor) == f"{kind}({', '.join([repr(predictor.folder), *facts])})"

    def test_a_text_alone_is_answered_as_in_company(self, name, predictor):
        texts = CASES[name].texts
        answers = predictor(texts)
        assert [flat(predictor(text)) for text in texts] == [flat(answer) for answer in answers]
        assert flat(answers[::-1]) != flat(answers)
        assert predictor([]) == predictor(()) == list(predictor.pipe([])) == []

    def test_any_container_has_several_texts(self, name, predictor):
        texts = CASES[name].texts
        expected = flat(predictor(texts))
        for container in several_in_containers(texts, predictor.takes_pairs):
            answers = flat(predictor(container))
            assert answers == expected
            assert {type(part) for part in answers if isinstance(part, str)} <= {str}  # not NumPy's
        for wrong, message in (
            ({"text": texts}, "dict, .* give a column, or zip two"),
            ("paris", "str, .* give a list"),
        ):
            with pytest.raises(ValueError, match=f"^texts is of type {message}"):
                predictor.pipe(wrong)
        for wrong in (None, np.array("paris")):
            with pytest.raises(ValueError, match=r"^text 1 is .*, but a"):
                predictor(wrong)

    def test_a_call_may_have_its_own_batch_size(self, name, predictor, monkeypatch):
        texts, sizes, run_batch = CASES[name].texts, [], predictor.network._run
        expected = predictor(texts)
        monkeypatch.setattr(
            predictor.network, "_run", lambda rows, *rest: sizes.append(len(rows)) or run_batch(rows, *rest)
        )
        for size in (3, 1):
            sizes.clear()
            assert flat(predictor(texts, batch_size=size)) == flat(expected)
            assert max(sizes) == size
        with pytest.raises(ValueError, match="^batch_size is 0, but must be a whole number above 0$"):
            predictor.pipe(texts, 0)

    def test_texts_are_read_a_little_ahead_of_the_answers(self, name, predictor):
        texts, taken = CASES[name].texts, []
        answers = predictor.pipe(taken.append(number) or texts[number % 3] for number in itertools.count())
        assert taken == []
        found = flat(list(itertools.islice(answers, 70)))
        assert len(taken) <= 70 + 64
        assert found == flat((predictor(texts) * 24)[:70])

    def test_input_has_limits(self, name, predictor):
        texts = CASES[name].texts
        with pytest.raises(
            ValueError, match="^there are more texts than limits.max_texts, which is 3; take the method"
        ):
            predictor([*texts, texts[0]])
        assert len(list(predictor.pipe(texts * 2))) == 6
        more = " he" * 400
        long = texts[0] + more if isinstance(texts[0], str) else (texts[0][0] + more, *texts[0][1:])
        with pytest.raises(
            ValueError, match=r"^text 1 has 1,2\d\d characters.* max_chars is 1,100; make it shorter, or"
        ):
            predictor(long)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [(name, value, message) for name, case in CASES.items() for value, message in case.mistakes],
)
def test_a_mistake_is_found_before_any_text_is_answered(name, value, message, predictor, monkeypatch):
    monkeypatch.setattr(predictor.network, "_run", None)
    with pytest.raises(ValueError, match=f"^row 1 {message}"):
        predictor([CASES[name].texts[0], value])


@pytest.mark.parametrize(
    ("container", "place"),
    [(list, "row 2"), (tuple, "row 2"), (lambda texts: np.array(texts, object), "row 2"), (iter, "text 3")],
)
def test_rows_in_memory_count_from_0_as_in_training(container, place, predictor_of):
    predictor = predictor_of("classification")
    with pytest.raises(ValueError, match=f"^{place} {NO_WORD}"):
        list(predictor.pipe(container([*TEXTS[:2], ""])))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("no_graphs")
def test_a_text_that_cannot_be_answered_stops_all_or_is_reported(name, predictor):
    good, (wrong, message) = CASES[name].texts[0], CASES[name].mistakes[0]
    texts, sources = [good, wrong, good, ValueError("unreadable")], [f"a.txt line {number}" for number in range(1, 5)]
    answers = predictor.pipe(texts, sources=sources)
    with pytest.raises(ValueError, match=f"^a.txt line 2 {message}"):
        next(answers)
    first, second, third, fourth = predictor.pipe(texts, sources=sources, on_error="report")
    assert flat([first, third]) == flat([predictor(good)] * 2)
    assert (type(second), second.source) == (Unanswered, "a.txt line 2")
    assert second.error.startswith("a.txt line 2 ")
    assert fourth == Unanswered("a.txt line 4", "unreadable")
    for names, difference in ((["a"], "fewer"), (["a", "b", "c"], "more")):
        with pytest.raises(ValueError, match=f"^sources has {difference} names than there are texts$"):
            list(predictor.pipe([good] * 2, sources=names))
    with pytest.raises(ValueError, match='^on_error is "skip", but must be one of stop, report$'):
        predictor.pipe(texts, on_error="skip")
    with pytest.raises(ValueError, match="^size is not an option of "):
        predictor.pipe([], size=1)
