"""FillMask fills masks at any position as the model does."""

import numpy as np
import pytest
from known_models import (
    KNOWN_PROBABILITY,
    TOKENS,
    constant_model,
    ids_of,
    plain_call,
    positional_model,
    random_model,
    write_model,
)

from bert_keras.prediction import FilledText, FillMask, Guess

pytestmark = pytest.mark.usefixtures("no_graphs")

PLACES = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that predicts PLACES[position % 15] for each position, with [CLS] at 0."""
    return write_model(tmp_path_factory.mktemp("by_position"), positional_model(PLACES))


@pytest.fixture(scope="module")
def by_position(folder):
    return FillMask(folder)


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory):
    """Always answers paris 0.5, ##ing 0.25, london 0.125."""
    model = constant_model({"paris": 0.5, "##ing": 0.25, "london": 0.125})
    return FillMask(write_model(tmp_path_factory.mktemp("by_heart"), model), top_k=3)


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    model = random_model(num_hidden_layers=1)
    return model, write_model(tmp_path_factory.mktemp("random"), model)


def top_tokens(answer):
    return [guesses[0].token for guesses in answer.masks]


def test_an_answer_has_tokens_probabilities_and_sentences(by_heart):
    answer = by_heart("He was [MASK].")
    guesses = [
        Guess("paris", pytest.approx(0.5, abs=1e-6), "He was paris."),
        Guess("##ing", pytest.approx(0.25, abs=1e-6), "He wasing."),
        Guess("london", pytest.approx(0.125, abs=1e-6), "He was london."),
    ]
    assert answer == FilledText("He was [MASK].", [guesses], "He was paris.")
    assert by_heart(["He was [MASK]."]) == by_heart(("He was [MASK].",)) == [answer]
    assert by_heart([]) == []


def test_each_mask_is_filled_alone_and_all_together(by_heart):
    answer = by_heart("The [MASK] of [MASK][MASK]")
    assert [guesses[0].sentence for guesses in answer.masks] == [
        "The paris of [MASK][MASK]",
        "The [MASK] of paris[MASK]",
        "The [MASK] of [MASK]paris",
    ]
    assert answer.best == "The paris of parisparis"


@pytest.mark.parametrize(
    ("text", "sentence"), [("walk [MASK]", "walking"), ("[MASK] on", "##ing on"), ("a  [MASK]. b", "aing. b")]
)
def test_a_token_that_continues_a_word_joins_it(by_heart, text, sentence):
    [[_, guess, _]] = by_heart(text).masks
    assert guess.sentence == sentence


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("[MASK]", "b"),
        ("paris is [MASK]", "d"),
        ("[MASK] is [MASK]", "b d"),
        ("[MASK][MASK] [MASK]", "b c d"),
        ("walking [MASK]", "d"),
        ("zebra [MASK]", "c"),
        ("is " * 37 + "[MASK]", "i"),
        ("[MASK] " * 30, " ".join((PLACES * 3)[1:31])),
    ],
)
def test_a_mask_is_predicted_at_its_position(by_position, text, tokens):
    answer = by_position(text)
    assert top_tokens(answer) == tokens.split()
    for guesses in answer.masks:
        # The mask's own row of the table is 0, so its logit of 0 is above the others'.
        assert guesses[0].probability == pytest.approx(KNOWN_PROBABILITY, abs=1e-5)
        assert len(guesses) == 5
        assert guesses[1].token == "[MASK]"


def test_answers_are_those_of_a_plain_call_without_padding(random):
    model, folder = random
    fill_mask = FillMask(folder, top_k=len(TOKENS), batch_size=3)
    cases = {
        "PARIS Is the [MASK] of france .": (ids_of("[CLS] paris is the [MASK] of france . [SEP]"), [4]),
        "[MASK] ate": (ids_of("[CLS] [MASK] ate [SEP]"), [1]),
        "a b c d e f g h i j k l [MASK] n o p [MASK]": (
            ids_of("[CLS] a b c d e f g h i j k l [MASK] n o p [MASK] [SEP]"),
            [13, 17],
        ),
        "he walked so [MASK]": (ids_of("[CLS] he walk ##ed so [MASK] [SEP]"), [5]),
    }
    answers = fill_mask(list(cases))
    assert [answer.text for answer in answers] == list(cases)
    for answer, (ids, positions) in zip(answers, cases.values(), strict=True):
        assert len(answer.masks) == len(positions)
        for guesses, position in zip(answer.masks, positions, strict=True):
            expected = np.exp(plain_call(model, ids, position=position)[0])
            assert [guess.token for guess in guesses] == [TOKENS[i] for i in np.argsort(-expected)]
            np.testing.assert_allclose([guess.probability for guess in guesses], np.sort(expected)[::-1], atol=1e-6)
            assert sum(guess.probability for guess in guesses) == pytest.approx(1, abs=1e-5)


def test_a_window_is_a_plain_call_on_its_tokens(random):
    model, folder = random
    tokens = [TOKENS[5 + i % 12] for i in range(90)]
    tokens[60] = "[MASK]"
    [[guess]] = FillMask(folder, long="window", top_k=1)(" ".join(tokens)).masks
    ids = ids_of(" ".join(["[CLS]", *tokens[60 - 19 : 60 + 19], "[SEP]"]))
    assert guess.probability == pytest.approx(np.exp(plain_call(model, ids, position=20)[0].max()), abs=1e-6)


def test_windows_are_around_each_mask(folder, messages):
    # Of 100 tokens: 3 is in the window from 0, 50 in the middle of a window of 38, 97 and 99 in the window from 62.
    words = ["is"] * 100
    for place in (3, 50, 97, 99):
        words[place] = "[MASK]"
    answer = FillMask(folder, long="window", top_k=1)(" ".join(words))
    assert top_tokens(answer) == [PLACES[position % 15] for position in (1 + 3, 1 + 19, 1 + 97 - 62, 1 + 99 - 62)]
    assert answer.best.split()[50] == PLACES[20 % 15]
    assert "text 1 has 100 tokens, 62 more than the 38 that the model takes; it is read through windows" in messages


def test_a_cut_text_keeps_its_first_masks(folder, messages):
    fill_mask = FillMask(folder, long="truncate", top_k=1)
    answer = fill_mask("[MASK] " + "is " * 50)
    assert top_tokens(answer) == ["b"]
    assert answer.best == "b " + "is " * 50
    assert "text 1 has 51 tokens, 13 more than the 38 that the model takes; only the first 38 are used" in messages
    message = r"^text 1 has 1 of its 2 \[MASK\] beyond the 38 tokens that the model takes; make it shorter, "
    message += "or choose long=window$"
    with pytest.raises(ValueError, match=message):
        fill_mask("[MASK] " + "is " * 50 + "[MASK]")


@pytest.mark.parametrize("top_k", [0, 41])
def test_top_k_is_at_most_the_size_of_the_vocabulary(folder, top_k):
    with pytest.raises(ValueError, match=rf"^top_k is {top_k}, but must be from 1 to the vocabulary's 40$"):
        FillMask(folder, top_k=top_k)


def test_a_token_that_is_twice_in_the_vocabulary_is_unknown_once(tmp_path):
    tokens = [*TOKENS, TOKENS[7]]
    folder = write_model(tmp_path, random_model(vocab_size=len(tokens), num_hidden_layers=1), tokens)
    guesses = FillMask(folder, top_k=len(tokens))("[MASK]").masks[0]
    assert sorted(guess.token for guess in guesses) == sorted([*TOKENS, "[UNK]"])


def test_candidates_have_their_share_of_the_whole_vocabulary(by_heart, random):
    [guesses] = by_heart("He was [MASK].", candidates=["London", "##ing", "the", "london"]).masks
    rest = (1 - 0.875) / (len(TOKENS) - 3)
    assert [(guess.token, guess.probability) for guess in guesses] == [
        ("##ing", pytest.approx(0.25, abs=1e-6)),
        ("london", pytest.approx(0.125, abs=1e-6)),
        ("the", pytest.approx(rest, abs=1e-6)),
    ]
    assert by_heart("He was [MASK].", candidates=["the"]).best == "He was the."
    fill_mask = FillMask(random[1], candidates=np.array(["paris", "a", "[UNK]", "so"]))
    texts = ["he was [MASK]", "[MASK] [MASK] ate"]
    everything = fill_mask(texts, candidates=TOKENS)
    for whole, some in zip(everything, fill_mask(texts), strict=True):
        for guesses, chosen in zip(whole.masks, some.masks, strict=True):
            expected = [guess for guess in guesses if guess.token in ("paris", "a", "[UNK]", "so")]
            assert [guess.token for guess in chosen] == [guess.token for guess in expected]
            np.testing.assert_allclose(
                [guess.probability for guess in chosen], [guess.probability for guess in expected], rtol=1e-5
            )
    assert [len(guesses) for guesses in fill_mask(texts, top_k=2)[1].masks] == [2, 2]


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ("paris", "is 'paris', but a list of one word or more is needed"),
        ([], r"is \[\], but a list of one word or more is needed"),
        ([5], r"is \[5\], but a list of one word or more is needed"),
        (
            ["a", "walked"],
            'has "walked", which the tokenizer turns into walk ##ed; a .MASK. is one token, so give words',
        ),
        (["zebra"], r'has "zebra", which the tokenizer turns into \[UNK\]; a'),
        ([" "], 'has " ", which the tokenizer turns into no token; a'),
    ],
)
def test_mistakes_in_candidates(by_heart, candidates, message):
    with pytest.raises(ValueError, match=f"^candidates {message}"):
        by_heart("[MASK]", candidates=candidates)


def test_each_call_may_ask_for_another_number_of_guesses(by_heart):
    assert [guess.token for guess in by_heart("[MASK]", top_k=2).masks[0]] == ["paris", "##ing"]
    assert [len(answer.masks[0]) for answer in by_heart.pipe(["[MASK]"] * 3, top_k=4)] == [4, 4, 4]
    assert len(by_heart("[MASK]").masks[0]) == 3
