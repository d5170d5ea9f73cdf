"""Files of tagged sentences: reading, rejected files, and writing predictions back."""

import gzip
import json
import re

import pytest

from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.tagging.conll_columns import format_columns
from bert_keras.tasks.tagging.entities import find_scheme
from bert_keras.tasks.tagging.rows import tagged_rows

COLUMNS = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- -X- O

He PRP B-NP O
"""


def test_columns_are_read_with_their_documents_and_lines(write, messages):
    path = write("train.txt", COLUMNS)
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
        b"New O\n\tYork B-LOC\n",
    ],
)
def test_marks_blanks_and_line_ends_change_nothing(write, content):
    [sentence] = read_conll(write("train.txt", content))
    assert (sentence.words, sentence.tags) == (["New", "York"], ["O", "B-LOC"])


@pytest.mark.parametrize(
    ("content", "sentences"),
    [
        # Tabs separate if all lines have one.
        ("New York\tB-LOC\na b \t O\n\xa0\tO\n", [["New York", "a b", "\xa0"]]),
        # The line ends of all systems, converted once or twice, and no others.
        ("a\u2028b O\nc\x0cd O\n", [["a\u2028b", "c\x0cd"]]),
        ("a O\r\r\nb O\r\r\n", [["a", "b"]]),
        ("a O\rb O\r", [["a", "b"]]),
        ("a O\rb B-X\r\n\r\nc\u2028d O\n", [["a", "b"], ["c\u2028d"]]),
        # Comments are lines before a sentence that differ from a word.
        ("# O\nb O\n", [["#", "b"]]),
        ("#tag B-X\nb O\n", [["#tag", "b"]]),
        ("# comment\n# one more of them\nb O\n# O\n", [["b", "#"]]),
    ],
)
def test_words_lines_and_comments(write, content, sentences):
    assert [sentence.words for sentence in read_conll(write("train.txt", content))] == sentences


def test_json_lines_are_read(write, messages):
    lines = [
        {"words": ["New York", "is"], "tags": ["B-LOC", "O"], "document": "a", "id": 7},
        {"words": ["big"], "tags": ["O"], "document": "a"},
        {"words": ["So"], "tags": ["O"], "document": "b"},
        {"words": ["what"], "tags": ["O"]},
    ]
    path = write("train.jsonl", "\n\n".join(map(json.dumps, lines)))
    sentences = read_conll(path)
    assert [sentence.words for sentence in sentences] == [line["words"] for line in lines]
    assert [sentence.tags for sentence in sentences] == [line["tags"] for line in lines]
    assert [sentence.document for sentence in sentences] == [0, 0, 1, 2]
    assert sentences[2].place(0) == f"{path} line 5 word 1"
    assert messages[1:] == [f"{path}: 4 sentences, 5 words, documents: 3; tags are BIO"]


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["B-X I-X O B-X B-X"], "BIO"),
        (["O I-X I-X O", "I-X B-X I-X"], "IOB1"),
        (["I-X I-Y"], "IOB1"),
        (["B-X I-X", "I-X O"], "mixed"),
        (["B-X I-Y"], "mixed"),
    ],
)
def test_schemes(tags, scheme):
    assert find_scheme([line.split() for line in tags]) == scheme


def test_mixed_tags_become_bio(write, messages):
    path = write("train.txt", "a B-X\nb I-Y\nc O\nd I-X\n")
    assert read_conll(path)[0].tags == ["B-X", "B-Y", "O", "B-X"]
    first = f'{path} line 2 has "I-Y" where an entity begins'
    assert messages[0].endswith(f"tags are BIO and IOB1 mixed ({first}), converted to BIO at 2 words")


@pytest.mark.parametrize(
    ("content", "tags", "scheme"),
    [
        ("a B\nb I\nc O\nd B\n", ["B", "I", "O", "B"], "BIO"),
        ("a I\nb I\nc B\n", ["B", "I", "B"], "IOB1, converted to BIO"),
        ("a I-X\nb I-X\nc B-X\nd I-Y\ne O\n", ["B-X", "I-X", "B-X", "B-Y", "O"], "IOB1, converted to BIO"),
        ("a B-X\nb I-X\nc E-X\nd S-X\ne O\n", ["B-X", "I-X", "I-X", "B-X", "O"], "IOBES, converted to BIO"),
        ("a B\nb M\nc E\nd S\n", ["B", "I", "I", "B"], "IOBES, converted to BIO"),
        ("a B-X\nb L-X\nc U-Y\nd U-Y\n", ["B-X", "I-X", "B-Y", "B-Y"], "BILOU, converted to BIO"),
        # A tag after an end tag begins an entity, as in conlleval.
        ("a B-X\nb E-X\nc I-X\nd E-X\n", ["B-X", "I-X", "B-X", "I-X"], "IOBES, converted to BIO"),
    ],
)
def test_tags_of_all_schemes(write, messages, content, tags, scheme):
    [sentence] = read_conll(write("train.txt", content))
    assert sentence.tags == tags
    assert messages[0].endswith(f"; tags are {scheme}")
    [sentence] = read_conll(write("train.txt", content), is_bio=False)
    assert sentence.tags == [line.split()[1] for line in content.splitlines()]


GERMEVAL = """#\tn-tv.de vom 26.02.2005 [2005-02-26]
1\tSchartau\tB-PER\tO
2\tsagte\tO\tB-ORG

#\twelt.de vom 29.10.2005 [2005-10-29]
1\t#\tO\tO
2\tein\tO\tO
"""
CONLL_U = """# newdoc id = first
# text = Du vin.
1-2\tDu\t_\t_
1\tde\tADP\tO
2\tle\tDET\tO
3\tvin\tNOUN\tB-X
3.1\tbu\t_\t_

# newdoc
1\tOui\tINTJ\tO
"""


def test_germeval(write, messages):
    path = write("train.txt", GERMEVAL)
    first, second = read_conll(path)
    assert (first.words, first.tags) == (["Schartau", "sagte"], ["O", "B-ORG"])
    assert (second.words, second.tags, second.place(1)) == (["#", "ein"], ["O", "O"], f"{path} line 7")
    assert messages[:3] == [
        f"{path}: 4 columns, counted from 0; column 1 has the words and column 3 the tags",
        f"{path}: column 2 also has tags; tag_column=2 reads these",
        f"{path}: 2 comment lines (#) are skipped",
    ]
    assert read_conll(path, tag_column=2)[0].tags == ["B-PER", "O"]
    assert read_conll(path, tag_column=-2)[0].tags == ["B-PER", "O"]
    assert read_conll(path, word_column=0)[0].words == ["1", "2"]
    predicted = format_columns(read_conll(path), [["B-Z", "O"], ["O", "O"]]).splitlines()
    assert predicted[:3] == [GERMEVAL.splitlines()[0], "1\tSchartau\tB-PER\tO\tB-Z", "2\tsagte\tO\tB-ORG\tO"]


def test_conll_u(write):
    path = write("train.txt", CONLL_U)
    first, second = read_conll(path)
    assert (first.words, first.tags) == (["de", "le", "vin"], ["O", "O", "B-X"])
    assert (second.words, second.document) == (["Oui"], first.document + 1)
    predicted = format_columns([first, second], [["O", "O", "B-Y"], ["O"]])
    assert predicted == (
        "# newdoc id = first\n# text = Du vin.\n1-2\tDu\t_\t_\t_\n1\tde\tADP\tO\tO\n2\tle\tDET\tO\tO\n"
        "3\tvin\tNOUN\tB-X\tB-Y\n3.1\tbu\t_\t_\t_\n\n# newdoc\n1\tOui\tINTJ\tO\tO\n"
    )
    assert [sentence.tags for sentence in read_conll(write("train.txt", predicted))] == [["O", "O", "B-Y"], ["O"]]


def test_named_columns(write):
    path = write("train.txt", "O a NN\nB-X b NN\n")
    [sentence] = read_conll(path, word_column=1, tag_column=0)
    assert (sentence.words, sentence.tags) == (["a", "b"], ["O", "B-X"])
    for columns, message in (
        ({"tag_column": 3}, "line 1 has 3 columns, counted from 0, so tag_column=3 is not one of them"),
        ({"word_column": -4}, "line 1 has 3 columns, counted from 0, so word_column=-4 is not one of them"),
        ({"word_column": 1, "tag_column": -2}, "word_column and tag_column are both column 1; give each its own"),
    ):
        with pytest.raises(ValueError, match=message):
            read_conll(path, **columns)
    assert read_conll(write("train.txt", "a b\n"), needs_tags=False, tag_column=3)[0].tags is None
    with pytest.raises(ValueError, match="is JSON, which has no columns; leave out word_column"):
        read_conll(write("train.jsonl", '{"words": ["a"]}'), tag_column=1)


def test_compressed_files_are_read_by_the_name_within(write):
    [sentence] = read_conll(write("train.jsonl.gz", gzip.compress(b'{"words": ["a"], "tags": ["O"]}')))
    assert sentence.place() == f"{sentence.path} line 1 word 1"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "a O\nb Z-PER\n",
            'train.txt line 2: the tag "Z-PER" is not one of BIO, IOB1, IOBES or BILOU; convert the file to tags O, .*'
            "or name the column of the tags with tag_column",
        ),
        ("a O\n\nb PER\n", 'train.txt line 3: the tag "PER" is not one of'),
        ("a B-\n", 'train.txt line 1: the tag "B-" is not one of'),
        ("word tag\na O\n", 'train.txt line 1: the tag "tag" is not .*; if this line names the columns, remove it$'),
        ("a O\n# NN\n", 'line 2: the tag "NN" is not one of'),
        ("a\nb\n", "train.txt line 1 has only words; add a column of tags$"),
        ("\na b O\nc O\n", "train.txt line 3 has 2 columns, but line 2 has 3 columns; all lines need as many"),
        ("a O\nb\n", "train.txt line 2 has 1 column, but line 1 has 2 columns"),
        ("\tO\n", "train.txt line 1 has no word in column 0, counted from 0; put the word there$"),
        ("", "train.txt is empty; give a file of CoNLL columns or JSON lines$"),
        ("-DOCSTART- -X- O\n\n \t\n", "train.txt has no sentence; it needs one word and its tag on a line"),
    ],
)
def test_mistakes_in_columns(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write("train.txt", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "train.jsonl line 1: not valid JSON .*; it needs {"),
        ('\n["a"]', 'train.jsonl line 2 object 1: a JSON str instead of an object; it needs {"words":'),
        ('{"form": ["a"]}', 'train.jsonl line 1 has no "words", but form; it needs'),
        (json.dumps(dict.fromkeys("abcdefghijkl")), 'has no "words", but a, b, c, d, e, f, g, h, i, j and 2 more; it'),
        ('{"words": "a"}', 'train.jsonl line 1: "words" is "a", but must be a list of at least one text$'),
        ('{"words": []}', r'train.jsonl line 1: "words" is \[\], but must be'),
        (
            '{"words": ["a"], "tags": [1]}',
            r'train.jsonl line 1: "tags" is \[1\], but a tag is a text such as B-PER; if',
        ),
        ('{"words": ["a", "b"], "tags": ["O"]}', "train.jsonl line 1 has 2 words but 1 tags; every word needs one tag"),
        (
            '{"text": "a b c", "tags": ["O", "O"]}',
            "train.jsonl line 1 has 3 words but 2 tags; every word needs one tag",
        ),
        ('{"text": "a b", "tags": ["sport"]}', 'train.jsonl line 1: a span of "tags" is "sport"; it needs'),
        ('{"text": "a b", "tags": "sport"}', "train.jsonl line 1 has only words; add spans of its text, as in"),
        ('{"words": ["a"]}', 'train.jsonl line 1 has only words; add "tags", a list of as many tags$'),
        ('{"words": ["a", "b"], "tags": ["O", "Z-X"]}', 'train.jsonl line 1 word 2: the tag "Z-X" is not one of'),
    ],
)
def test_mistakes_in_json_lines(write, content, message):
    with pytest.raises(ValueError, match=message):
        read_conll(write("train.jsonl", content))


@pytest.mark.parametrize(
    ("content", "name", "reason"),
    [
        ("a\nb\n\nc\n", "test.txt", "line 1 has only words"),
        ("a DT\nb NN\n\nc NN\n", "test.txt", 'line 1: the tag "DT" is not one of'),
        ('{"words": ["a", "b"], "tags": ["O", "O"]}\n{"words": ["c"]}', "test.jsonl", "line 2 has only words"),
    ],
)
def test_prediction_needs_no_tags(write, messages, content, name, reason):
    path = write(name, content)
    sentences = read_conll(path, needs_tags=False)
    assert [sentence.words for sentence in sentences] == [["a", "b"], ["c"]]
    assert [sentence.tags for sentence in sentences] == [None, None]
    assert read_conll(write("train.txt", "a B-X\n"), needs_tags=False)[0].tags == ["B-X"]
    assert messages[0].startswith(f"{path}: 2 sentences, 3 words, documents: 1; read without tags: {reason}")


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
def test_predictions_are_an_additional_column(write, content, predicted, expected):
    assert format_columns(read_conll(write("train.txt", content), needs_tags=False), predicted) == expected


def test_predictions_are_added_to_json_lines(write):
    lines = '{"id": 3, "words": ["é", "b"], "document": null}\n\n{"words": ["c"], "tags": ["B-X"]}\n'
    sentences = read_conll(write("test.jsonl", lines), needs_tags=False)
    assert tagged_rows(sentences, [["O", "B-X"], ["O"]], [[0.5, 0.25], [1.0]]) == [
        {"id": 3, "words": ["é", "b"], "document": None, "predicted_tags": ["O", "B-X"], "confidences": [0.5, 0.25]},
        {"words": ["c"], "tags": ["B-X"], "predicted_tags": ["O"], "confidences": [1.0]},
    ]


@pytest.mark.parametrize(("name", "count"), [("dev", 3250), ("test", 3453)])
def test_the_sentences_of_conll_2003(shared_dir, name, count):
    path = shared_dir("data/conll2003") / f"{name}.txt"
    sentences = read_conll(path)
    assert len(sentences) == count
    assert find_scheme([sentence.tags for sentence in sentences]) == "BIO"
    lines = format_columns(sentences, [sentence.tags for sentence in sentences]).splitlines()
    assert [line.rsplit(" ", 1)[0] for line in lines] == path.read_text(encoding="utf-8").rstrip().splitlines()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", '{"text": "Ann is here", "tags": ["B-PER", "O", "O"]}\n{"text": "Rome", "tags": ["B-LOC"]}'),
        ("a.jsonl", '{"words": "Ann is here", "tags": "B-PER O O"}\n{"words": "Rome", "tags": "B-LOC"}'),
        (
            "a.jsonl",
            '{"sentence": ["Ann", "is", "here"], "ner": ["B-PER", "O", "O"]}\n{"words": "Rome", "tags": "B-LOC"}',
        ),
        ("a.csv", "Sentence #,Sentence,Tag\n1,Ann is here,\"['B-PER', 'O', 'O']\"\n2,Rome,['B-LOC']\n"),
        ("a.csv", "text,tags\nAnn is here,B-PER O O\nRome,B-LOC\n"),
        ("a.csv", "words,labels\nAnn  is here ,B-PER O O\nRome,B-LOC\n"),
        ("a.txt", "sentence\ttags\nAnn is here\tB-PER O O\nRome\tB-LOC\n"),
    ],
)
def test_a_text_may_have_a_tag_for_each_word_between_blanks(write, name, content):
    first, second = read_conll(write(name, content))
    assert (first.words, first.tags) == (["Ann", "is", "here"], ["B-PER", "O", "O"])
    assert (second.words, second.tags) == (["Rome"], ["B-LOC"])
    [row, _] = tagged_rows([first, second], [["O"] * 3, ["O"]], [[1.0] * 3, [1.0]])
    assert (row["words"], row["predicted_tags"]) == (first.words, ["O"] * 3)


@pytest.mark.parametrize("is_numbered_throughout", [False, True])
def test_a_csv_file_with_a_column_of_sentences(tmp_path, is_numbered_throughout):
    file = tmp_path / "ner.csv"
    other = "Sentence: 1" if is_numbered_throughout else ""
    file.write_text(
        "Sentence #,Word,POS,Tag\r\n"
        f'Sentence: 1,Thousands,NNS,O\r\n{other},of,IN,O\r\n{other},"London, UK",NNP,B-geo\r\nSentence: 2,"""",UH,O\r\n'
    )
    sentences = read_conll(file)
    assert [sentence.words for sentence in sentences] == [["Thousands", "of", "London, UK"], ['"']]
    assert [sentence.tags for sentence in sentences] == [["O", "O", "B-geo"], ["O"]]
    assert sentences[1].place(0) == f"{file} line 5"
    # The predictions are CoNLL columns, which can be read again.
    text = format_columns(sentences, [["O", "O", "O"], ["B-geo"]])
    assert text == 'Thousands\tNNS\tO\tO\nof\tIN\tO\tO\nLondon, UK\tNNP\tB-geo\tO\n\n"\tUH\tO\tB-geo\n'
    file.write_text("token;sentence_id\nHe;1\nwas;1\nSo;2\n")
    assert [sentence.words for sentence in read_conll(file, needs_tags=False)] == [["He", "was"], ["So"]]


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (
            "EU,B-ORG\nrejects,O\n",
            {},
            "has the columns EU, B-ORG, but a table of words needs columns such as Sentence #, ",
        ),
        ("words,tags\na,O\nb,O\n", {}, "has the columns words, tags, but a table of words needs columns such as"),
        ("Sentence #,Word\n1,a\n", {}, "has the columns Sentence #, Word, but a table of words needs columns such as"),
        ("Sentence #,Word,Tag\n1,a,O\n", {"tag_column": 2}, "has a header that names the columns; leave out word"),
        ("Sentence #,Word,Tag\n1,a,O\n1,,O\n", {}, 'line 3 has no word in the column "Word"; put the word there'),
        ("Sentence #,Word,Tag\n1,a,O\n1,a\n", {}, "line 3: 2 cells, but the header has 3"),
        ("Sentence #,Word,Tag\n1,a,PER\n", {}, 'line 2: the tag "PER" is not one of BIO, IOB1, IOBES or BILOU'),
        ("Sentence #,Word,Tag\n", {}, "has no sentence"),
    ],
)
def test_mistakes_in_csv_files(tmp_path, content, flags, message):
    (tmp_path / "ner.csv").write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_conll(tmp_path / "ner.csv", **flags)
