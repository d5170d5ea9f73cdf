"""FillMask fills masks at any position as the model does."""

import numpy as np
import pytest
from known_models import (
    CASED_TOKENS,
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

PLACES = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o"]


@pytest.fixture(scope="module")
def by_position(tmp_path_factory):
    """A model that predicts PLACES[position % 15] for each position, with [CLS] at 0."""
    return write_model(tmp_path_factory.mktemp("by_position"), positional_model(PLACES))


@pytest.fixture(scope="module")
def by_heart(tmp_path_factory):
    """A model that always answers paris 0.5, ##ing 0.25, london 0.125."""
    model = constant_model({"paris": 0.5, "##ing": 0.25, "london": 0.125})
    return write_model(tmp_path_factory.mktemp("by_heart"), model)


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    model = random_model()
    return model, write_model(tmp_path_factory.mktemp("random"), model)


def top_tokens(answer):
    return [guesses[0].token for guesses in answer.masks]


def test_an_answer_has_tokens_probabilities_and_sentences(by_heart):
    answer = FillMask(by_heart, top_k=3)("He was [MASK].")
    assert isinstance(answer, FilledText)
    assert answer.text == "He was [MASK]."
    [guesses] = answer.masks
    assert [(guess.token, guess.sentence) for guess in guesses] == [
        ("paris", "He was paris."),
        ("##ing", "He wasing."),
        ("london", "He was london."),
    ]
    assert [guess.probability for guess in guesses] == pytest.approx([0.5, 0.25, 0.125], abs=1e-6)
    assert answer.best == "He was paris."


def test_each_mask_is_filled_alone_and_all_together(by_heart):
    answer = FillMask(by_heart, top_k=1)("The [MASK] of [MASK][MASK]")
    assert [guesses[0].sentence for guesses in answer.masks] == [
        "The paris of [MASK][MASK]",
        "The [MASK] of paris[MASK]",
        "The [MASK] of [MASK]paris",
    ]
    assert answer.best == "The paris of parisparis"


@pytest.mark.parametrize(
    ("text", "sentence"), [("walk [MASK]", "walking"), ("[MASK] on", "##ing on"), ("a  [MASK]. b", "aing. b")]
)
def test_a_piece_that_goes_on_joins_the_word_before_it(tmp_path, text, sentence):
    folder = write_model(tmp_path, constant_model({"##ing": 0.9}))
    assert FillMask(folder, top_k=1)(text).best == sentence


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("[MASK]", "b"),
        ("paris is [MASK]", "d"),
        ("[MASK] is [MASK]", "b d"),
        ("[MASK][MASK] [MASK]", "b c d"),
        ("walking [MASK]", "d"),
        ("zebra [MASK]", "c"),
    ],
)
def test_a_mask_is_looked_at_where_it_stands(by_position, text, tokens):
    answer = FillMask(by_position)(text)
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
        "paris is the [MASK] of france .": (ids_of("[CLS] paris is the [MASK] of france . [SEP]"), [4]),
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


def test_one_text_gives_one_answer_and_a_list_a_list(by_heart):
    fill_mask = FillMask(by_heart, top_k=1)
    alone = fill_mask("is [MASK]")
    assert alone == fill_mask(["is [MASK]"])[0]
    assert alone.masks == [[Guess("paris", alone.masks[0][0].probability, "is paris")]]
    assert fill_mask([]) == []


def test_many_masks_are_answered_in_order(by_position):
    num = 30
    answer = FillMask(by_position, top_k=1)(" ".join(["[MASK]"] * num))
    assert top_tokens(answer) == [PLACES[(1 + i) % 15] for i in range(num)]


def test_many_texts_are_answered_in_order(by_position):
    texts = [" ".join(["walk"] * (i % 13) + ["[MASK]"]) for i in range(100)]
    fill_mask = FillMask(by_position, top_k=1, batch_size=1)
    assert [top_tokens(answer) for answer in fill_mask(texts)] == [[PLACES[(i % 13 + 1) % 15]] for i in range(100)]


def test_repeated_calls_do_not_trace_again(random):
    _, folder = random
    fill_mask = FillMask(folder, batch_size=4)
    assert fill_mask.network.lengths == [16, 32, 40]
    assert fill_mask.num_traces == 0
    fill_mask("he was [MASK]")
    assert fill_mask.num_traces == 1
    for num_texts in (1, 2, 3, 4, 9):
        fill_mask([f"[MASK] {'is ' * number} [MASK]" for number in range(num_texts)])
    assert fill_mask.num_traces == 1
    fill_mask(["is " * 14 + "[MASK]", "is " * 29 + "[MASK]", "is " * 30 + "[MASK]", "[MASK]"])
    assert fill_mask.num_traces == 3
    for num_words in range(38):
        fill_mask("is " * num_words + "[MASK]" * (38 - num_words))
    assert fill_mask.num_traces == 3


def test_a_text_that_just_fits_is_answered(by_position):
    assert top_tokens(FillMask(by_position)("is " * 37 + "[MASK]")) == [PLACES[38 % 15]]


def test_a_longer_text_is_refused(by_position):
    with pytest.raises(ValueError, match=r"^text 2 has 39 tokens, 1 more than the 38 that the model takes; make it"):
        FillMask(by_position)(["[MASK]", "is " * 38 + "[MASK]"])


def test_windows_are_around_each_mask(by_position, messages):
    fill_mask = FillMask(by_position, long="window", top_k=1)
    # Of 100 tokens: 3 is in the window from 0, 50 in the middle of a window of 38, 97 and 99 in the window from 62.
    words = ["is"] * 100
    for place in (3, 50, 97, 99):
        words[place] = "[MASK]"
    answer = fill_mask(" ".join(words))
    assert top_tokens(answer) == [PLACES[position % 15] for position in (1 + 3, 1 + 19, 1 + 97 - 62, 1 + 99 - 62)]
    assert answer.best.split()[50] == PLACES[20 % 15]
    [told] = [message for message in messages if message.startswith("text 1")]
    assert told == "text 1 has 100 tokens, 62 more than the 38 that the model takes; it is read through windows"


def test_a_window_is_a_plain_call_on_its_pieces(random):
    model, folder = random
    tokens = [TOKENS[5 + i % 12] for i in range(90)]
    tokens[60] = "[MASK]"
    [[guess]] = FillMask(folder, long="window", top_k=1)(" ".join(tokens)).masks
    ids = ids_of(" ".join(["[CLS]", *tokens[60 - 19 : 60 + 19], "[SEP]"]))
    assert guess.probability == pytest.approx(np.exp(plain_call(model, ids, position=20)[0].max()), abs=1e-6)


def test_a_cut_text_keeps_its_first_masks(by_position, messages):
    answer = FillMask(by_position, long="truncate", top_k=1)("[MASK] " + "is " * 50)
    assert top_tokens(answer) == ["b"]
    assert answer.best == "b " + "is " * 50
    assert "text 1 has 51 tokens, 13 more than the 38 that the model takes; only the first 38 are used" in messages


def test_a_mask_that_would_be_cut_off_is_refused(by_position):
    with pytest.raises(
        ValueError,
        match=r"^text 1 has 1 of its 2 \[MASK\] beyond the 38 tokens that the model takes; choose long=window$",
    ):
        FillMask(by_position, long="truncate")("[MASK] " + "is " * 50 + "[MASK]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r'text 1 has no \[MASK\]: ""; write \[MASK\] where a word is to be guessed'),
        ("he was", r'text 1 has no \[MASK\]: "he was"; write \[MASK\] where a word is to be guessed'),
        ("he was [mask]", r'text 1 has no \[MASK\]: "he was \[mask\]"; write \[MASK\] for \[mask\]'),
        ("he was <mask>", r"write \[MASK\] for <mask>"),
        ("a" * 99, rf'text 1 has no \[MASK\]: "{"a" * 57}\.\.\."; write'),
        (7, "text 1 is of type int, but a str is needed"),
    ],
)
def test_a_text_without_a_mask_is_refused_before_any_is_answered(by_heart, text, message):
    with pytest.raises(ValueError, match=f"^{message}" if message.startswith("text") else message):
        FillMask(by_heart)([text, "is [MASK]"])


def test_errors_call_texts_by_the_names_that_were_given(by_heart):
    fill_mask = FillMask(by_heart)
    with pytest.raises(ValueError, match=r"^a\.txt line 9 has no \[MASK\]"):
        next(fill_mask.answers(["[MASK]", "is"], ["a.txt line 3", "a.txt line 9"]))
    assert fill_mask.num_traces == 0


@pytest.mark.parametrize("top_k", [0, 41])
def test_the_number_of_guesses_must_be_one_that_the_vocabulary_has(by_heart, top_k):
    with pytest.raises(ValueError, match=rf"^top_k is {top_k}, but must be from 1 to the vocabulary's 40$"):
        FillMask(by_heart, top_k=top_k)


def test_cased_text_keeps_its_case_with_a_cased_vocabulary(tmp_path, messages):
    folder = write_model(tmp_path, positional_model(PLACES), CASED_TOKENS)
    assert "Paris" in CASED_TOKENS
    fill_mask = FillMask(folder)
    assert fill_mask.tokenizer.encode("Paris") == [CASED_TOKENS.index("Paris")]
    assert fill_mask.tokenizer.encode("paris") == [CASED_TOKENS.index("[UNK]")]
    assert f"keeping capital letters (guessed from the words of {folder / 'vocab.txt'})" in messages


def test_cased_text_is_lower_cased_with_an_uncased_vocabulary(random):
    _, folder = random
    fill_mask = FillMask(folder, top_k=1)
    shouted, said = fill_mask(["PARIS Is The [MASK]", "paris is the [MASK]"])
    assert shouted.masks[0][0].probability == said.masks[0][0].probability
    assert shouted.best.startswith("PARIS Is The")
