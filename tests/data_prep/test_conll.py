"""Files of tagged sentences: what is read from them, which are refused, and predictions written back into them."""

import json

import pytest

from data_prep.conll import Sentence, find_scheme, format_columns, format_json_lines, read_conll

COLUMNS = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- -X- O

He PRP B-NP O
"""


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its path: a function of content and name."""

    def write(content, name="train.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return write


def tags_of(*tags):
    return [Sentence(words=["w"] * len(line.split()), tags=line.split()) for line in tags]


def test_columns_are_read_with_their_documents_and_lines(write, messages):
    path = write(COLUMNS)
    first, second, third = read_conll(path)
    assert first.words == ["EU", "rejects"]
    assert first.tags == ["B-ORG", "O"]
    assert list(first.line_numbers) == [3, 4]
    assert second.tags == ["B-PER", "I-PER"]
    assert first.document == second.document != third.document
    assert second.place(1) == f"{path} line 7"
    assert messages == [f"{path}: 3 sentences, 5 words, documents: 2; tags are BIO"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfNew\tO\nYork\tB-LOC\n",
        b"New O\r\nYork B-LOC\r\n\r\n\r\n",
        b"\n\nNew O \n York  \t B-LOC",
        b"New NNP O\nYork NNP B-LOC",
        b"New O\n\tYork B-LOC\n",
    ],
)
def test_marks_blanks_and_line_ends_change_nothing(write, content):
    [sentence] = read_conll(write(content))
    assert (sentence.words, sentence.tags) == (["New", "York"], ["O", "B-LOC"])


def test_where_every_line_has_a_tab_blanks_belong_to_the_words(write):
    [sentence] = read_conll(write("New York\tB-LOC\na b \t O\n\xa0\tO\n"))
    assert sentence.words == ["New York", "a b", "\xa0"]


def test_characters_that_look_like_line_ends_are_none(write):
    [sentence] = read_conll(write("a\u2028b O\nc\x0cd O\n"))
    assert sentence.words == ["a\u2028b", "c\x0cd"]


def test_json_lines_are_read(write, messages):
    lines = [
        {"words": ["New York", "is"], "tags": ["B-LOC", "O"], "document": "a", "id": 7},
        {"words": ["big"], "tags": ["O"], "document": "a"},
        {"words": ["So"], "tags": ["O"], "document": "b"},
        {"words": ["what"], "tags": ["O"]},
    ]
    path = write("\n\n".join(map(json.dumps, lines)), "train.jsonl")
    sentences = read_conll(path)
    assert [sentence.words for sentence in sentences] == [line["words"] for line in lines]
    assert [sentence.tags for sentence in sentences] == [line["tags"] for line in lines]
    assert [sentence.document for sentence in sentences] == [0, 0, 1, 2]
    assert sentences[2].place(0) == f"{path} line 5 word 1"
    assert messages == [f"{path}: 4 sentences, 5 words, documents: 3; tags are BIO"]


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["O O"], "BIO"),
        (["B-X I-X O B-X B-X"], "BIO"),
        (["O I-X I-X O", "I-X B-X I-X"], "IOB1"),
        (["I-X I-Y"], "IOB1"),
        (["B-X I-X", "I-X O"], "mixed"),
        (["B-X I-Y"], "mixed"),
    ],
)
def test_schemes_are_told_apart(tags, scheme):
    assert find_scheme(tags_of(*tags)) == scheme


def test_iob1_becomes_bio_and_that_is_said(write, messages):
    path = write("a I-X\nb I-X\nc B-X\nd I-Y\ne O\n\nf I-Y\n")
    first, second = read_conll(path)
    assert first.tags == ["B-X", "I-X", "B-X", "B-Y", "O"]
    assert second.tags == ["B-Y"]
    assert messages == [f"{path}: 2 sentences, 6 words, documents: 1; tags are IOB1, turned into BIO"]


def test_mixed_tags_become_bio_and_the_first_is_named(write, messages):
    path = write("a B-X\nb I-Y\nc O\nd I-X\n")
    [sentence] = read_conll(path)
    assert sentence.tags == ["B-X", "B-Y", "O", "B-X"]
    assert messages[0].endswith(
        f'tags are BIO and IOB1 mixed ({path} line 2 has "I-Y" where an entity begins), turned into BIO at 2 words'
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "a O\nb S-PER\n",
            'train.txt line 2: the tag "S-PER" is neither of BIO nor of IOB1; convert the file to tags O',
        ),
        ("a O\n\nb PER\n", 'train.txt line 3: the tag "PER" is neither'),
        ("a X-PER\n", 'train.txt line 1: the tag "X-PER" is neither'),
        ("a B-\n", 'train.txt line 1: the tag "B-" is neither'),
        ("a\nb\n", "train.txt line 1 has words alone; put beside them the tag as last column$"),
        ("\na b O\nc O\n", "train.txt line 3 has 2 columns, but line 2 has 3 columns; all lines need as many, first"),
        ("a O\nb\n", "train.txt line 2 has 1 column, but line 1 has 2 columns"),
        ("\tO\n", "train.txt line 1 begins with a tab, so that it has no word; put the word there$"),
        ("", "train.txt holds no sentence; it needs one word and its tag on a line$"),
        ("-DOCSTART- -X- O\n\n \t\n", "train.txt holds no sentence"),
        (b"a O\nb\xff O\n", r"train.txt line 2: not UTF-8 \(byte 0xff\); save it as UTF-8$"),
    ],
)
def test_mistakes_in_columns_are_named_by_line(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write(content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "train.jsonl line 1 is not JSON of Unicode text .*; it needs {"),
        ('{"words": ["\\ud800"], "tags": ["O"]}', "train.jsonl line 1 is not JSON of Unicode text"),
        ('\n["a"]', 'train.jsonl line 2 has no "words"; it needs {"words":'),
        ('{"word": ["a"]}', 'train.jsonl line 1 has no "words"'),
        ('{"words": "a"}', 'train.jsonl line 1: "words" is "a", but must be a list of at least one text$'),
        ('{"words": []}', r'train.jsonl line 1: "words" is \[\], but must be'),
        ('{"words": ["a"], "tags": [1]}', r'train.jsonl line 1: "tags" is \[1\], but must be'),
        ('{"words": ["a", "b"], "tags": ["O"]}', "train.jsonl line 1 has 2 words but 1 tags; every word needs one tag"),
        ('{"words": ["a"]}', "train.jsonl line 1 has words alone; put beside them a list of as many tags$"),
        ('{"words": ["a", "b"], "tags": ["O", "E-X"]}', 'train.jsonl line 1 word 2: the tag "E-X" is neither'),
        (" \n", "train.jsonl holds no sentence; it needs one object of words and tags on a line$"),
    ],
)
def test_mistakes_in_json_lines_are_named_by_line(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write(content, "train.jsonl"))


def test_files_that_are_none_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^there is no file .*none.txt; give a file of CoNLL columns or JSON"):
        read_conll(tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r" is a folder; give the file of sentences itself$"):
        read_conll(tmp_path)


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        ("a\nb\n\nc\n", "test.txt", "line 1 has words alone"),
        ("a DT\nb NN\n\nc NN\n", "test.txt", 'line 1: the tag "DT" is neither'),
        ('{"words": ["a", "b"], "tags": ["O", "O"]}\n{"words": ["c"]}', "test.jsonl", "line 2 has words alone"),
    ],
)
def test_what_is_to_be_predicted_needs_no_tags(write, messages, content, name, reason):
    path = write(content, name)
    sentences = read_conll(path, needs_tags=False)
    assert [sentence.words for sentence in sentences] == [["a", "b"], ["c"]]
    assert [sentence.tags for sentence in sentences] == [None, None]
    assert messages[0].startswith(f"{path}: 2 sentences, 3 words, documents: 1; taken to have no tags: {reason}")


def test_tags_that_are_there_are_read_for_prediction_too(write):
    assert read_conll(write("a B-X\n"), needs_tags=False)[0].tags == ["B-X"]


@pytest.mark.parametrize(
    ("content", "predicted", "expected"),
    [
        (
            COLUMNS,
            [["B-X", "I-X"], ["O", "O"], ["B-Y"]],
            "-DOCSTART- -X- -X- O O\n\nEU NNP B-NP B-ORG B-X\nrejects VBZ B-VP O I-X\n\nPeter NNP B-NP B-PER O\n"
            "Blackburn NNP I-NP I-PER O\n\n-DOCSTART- -X- -X- O O\n\nHe PRP B-NP O B-Y\n",
        ),
        (
            "-DOCSTART-\n\na\tO\n\n\nb\tO\n\n-DOCSTART-",
            [["O"], ["O"]],
            "-DOCSTART-\n\na\tO\tO\n\n\nb\tO\tO\n\n-DOCSTART-\n",
        ),
        ("a \r\nb\r\n", [["O", "B-X"]], "a O\nb B-X\n"),
        ("a I-X\n", [["B-X"]], "a I-X B-X\n"),
    ],
)
def test_predictions_are_one_more_column(write, content, predicted, expected):
    assert format_columns(read_conll(write(content), needs_tags=False), predicted) == expected


def test_predictions_are_added_to_json_lines(write):
    path = write(
        '{"id": 3, "words": ["é", "b"], "document": null}\n\n{"words": ["c"], "tags": ["B-X"]}\n', "test.jsonl"
    )
    text = format_json_lines(read_conll(path, needs_tags=False), [["O", "B-X"], ["O"]], [[0.5, 0.25], [1.0]])
    assert text == (
        '{"id": 3, "words": ["é", "b"], "document": null, "predicted_tags": ["O", "B-X"], "confidences": [0.5, 0.25]}\n'
        '{"words": ["c"], "tags": ["B-X"], "predicted_tags": ["O"], "confidences": [1.0]}\n'
    )


@pytest.mark.parametrize(("name", "count"), [("train", 14041), ("dev", 3250), ("test", 3453)])
def test_the_sentences_of_conll_2003(shared_dir, name, count):
    path = shared_dir("data/conll2003") / f"{name}.txt"
    sentences = read_conll(path)
    assert len(sentences) == count
    assert find_scheme(sentences) == "BIO"
    lines = format_columns(sentences, [sentence.tags for sentence in sentences]).splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == path.read_text(encoding="utf-8").rstrip().splitlines()
