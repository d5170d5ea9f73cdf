"""Tagged words in rows of JSON and in tables: names of columns, order of the rows, and what warns of lost borders."""

import json
import re

import pytest

from bert_keras.tasks.tagging.conll import read_conll


@pytest.mark.parametrize("name", ["ner_tokens.jsonl", "ner_misc_column.conllu"])
def test_files_of_other_projects(shared_dir, name):
    sentences = read_conll(shared_dir("data/awkward/third") / name)
    expected = {"ner_tokens.jsonl": "B-PER O O B-LOC", "ner_misc_column.conllu": "B-PER I-PER O O B-GPE O"}
    assert [" ".join(sentence.tags) for sentence in sentences] == [expected[name]]


@pytest.mark.parametrize(
    "row",
    [
        {"tokens": ["Anna", "is"], "ner_tags": ["B-PER", "O"], "pos_tags": [3, 4], "id": "0"},
        {"Tokens": ["Anna", "is"], "labels": ["B-PER", "O"]},
        {"words": ["Anna", "is"], "labels": ["B-PER", "O"], "tags": ["B-PER", "O"], "chunk_tags": [1, 2]},
        {"token": ["Anna", "is"], "NER Tags": ["B-PER", "O"], "label": None, "tokens": None},
        {"text": "Anna is", "words": ["Anna", "is"], "tags": ["B-PER", "O"], "label": []},
    ],
)
@pytest.mark.parametrize("form", ["lines", "list", "data", "pretty"])
def test_names_of_words_and_tags(write, row, form):
    content = {"lines": f"{json.dumps(row)}\n" * 2, "data": json.dumps({"data": [row, row], "version": 1})}
    content |= {"list": json.dumps([row, row]), "pretty": json.dumps([row, row], indent=2)}
    sentences = read_conll(write("train.json", content[form]))
    assert [(one.words, one.tags) for one in sentences] == [(["Anna", "is"], ["B-PER", "O"])] * 2


@pytest.mark.parametrize("name", ["document", "Document ID", "doc_id", "file_name"])
def test_names_of_documents(write, name):
    rows = [{"words": ["a"], "tags": ["O"], name: number} for number in (7, 7, 8)]
    table = [f"{name}\twords\ttags", *(f"{row[name]}\t['a']\t['O']" for row in rows)]
    lines, cells = write("a.jsonl", "\n".join(map(json.dumps, rows))), write("a.tsv", "\n".join(table))
    for path in (lines, cells):
        assert [sentence.document for sentence in read_conll(path)] == [0, 0, 1]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"tokens": ["a"], "ner_tags": [1]},
            '"ner_tags" is [1], but a tag is a text such as B-PER; if the numbers are',
        ),
        ({"tokens": ["a"], "labels": [-100]}, "write their names, which are in dataset.features"),
        ({"words": ["a"], "tags": [0.0]}, "the ids of Hugging Face's ClassLabel"),
        (
            {"words": ["a"], "tags": ["3"]},
            'word 1: the tag "3" is not one of BIO, IOB1, IOBES or BILOU; if the numbers',
        ),
        ({"words": ["a"], "tags": ["O"], "ner_tags": ["B-X"]}, 'has different tags in "tags" and "ner_tags"; keep one'),
        ({"words": ["a"], "tags": ["O"], "labels": [1]}, None),
        ({"words": ["a"], "tags": []}, '"tags" is [], but must be a list of at least one text'),
        ({"words": "a", "tags": ["O"]}, '"words" is "a", but must be a list of at least one text'),
        ({"words": [["a"]], "tags": ["O"]}, '"words" is [["a"]], but must be a list'),
    ],
)
def test_mistakes_in_rows(write, row, message):
    path = write("train.jsonl", f'{{"words": ["a"], "tags": ["O"]}}\n{json.dumps(row)}')
    if message is None:
        assert [one.tags for one in read_conll(path)] == [["O"], ["O"]]
        return
    with pytest.raises(ValueError, match="train.jsonl line 2.*" + re.escape(message)):
        read_conll(path)


KAGGLE = "Sentence #,Word,Tag\nSentence: 1,a,O\n,b,B-X\n,c,O\nSentence: 2,d,O\n,e,O\n"


@pytest.mark.parametrize(
    ("name", "content", "sizes"),
    [
        ("ner.csv", KAGGLE, [3, 2]),
        ("ner.tsv", KAGGLE.replace(",", "\t"), [3, 2]),
        ("ner.txt", KAGGLE.replace(",", "\t").replace("\n", "\r\n"), [3, 2]),
        ("ner.conll", KAGGLE.replace(",", "\t"), [3, 2]),
        ("ner.csv", "sentence_id,word_id,words,labels\nb,1,a,O\nb,2,c,O\na,1,d,O\na,2,e,B-X\n", [2, 2]),
        ("ner.csv", "doc,sentence_id,word,tag\nA,1,a,O\nA,1,b,O\nA,2,c,O\nB,1,d,O\nB,1,e,O\n", [2, 1, 2]),
        ("ner.csv", "document,sentence,word,tag\nA,1,a,O\n,,b,O\nB,1,d,O\n,,e,O\n", [2, 2]),
        # The numbers of words may count through the whole file, or be missing.
        ("ner.csv", "sentence,token_id,word,tag\n2,1,a,O\n2,2,b,O\n1,3,c,O\n1,,d,O\n", [2, 2]),
    ],
)
def test_tables_of_words(write, name, content, sizes):
    sentences = read_conll(write(name, content))
    assert [len(sentence.words) for sentence in sentences] == sizes


@pytest.mark.parametrize(
    "content",
    [
        """tokens,ner_tags\n"['Anna', 'is']","['B-PER', 'O']"\n""",
        """id;words;tags\n0;"[""Anna"", ""is""]";"[""B-PER"", ""O""]"\n""",
        """id,text,label\n1,Anna is,"[[0, 4, 'PER']]"\n""",
        """text;entities\nAnna is;[(0, 4, 'PER')]\n""",
        """text\tlabel\nAnna is\t[{"start": 0, "end": 4, "text": "Anna", "labels": ["PER"]}]\n""",
    ],
)
def test_tables_of_lists(write, content):
    [sentence] = read_conll(write("ner.tsv" if "\t" in content else "ner.csv", content))
    assert (sentence.words, sentence.tags) == (["Anna", "is"], ["B-PER", "O"])
    assert sentence.place(1).endswith(" line 2 word 2")
    shorter = "\n".join([*content.splitlines(), content.splitlines()[1].split("[")[0].strip('",;\t') or "a"])
    with pytest.raises(ValueError, match="line 3"):
        read_conll(write("ner.tsv" if "\t" in content else "ner.csv", shorter))


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (
            "sentence,word,tag\n0,a,O\n1,b,O\n0,c,O\n",
            4,
            'continues the sentence "0", whose words ended in {} 2; sort the',
        ),
        (
            "sentence,word,tag\nx,a,B-X\nx,b,O\ny,c,O\nx,d,I-X\n",
            5,
            'continues the sentence "x", whose words ended in {} 3',
        ),
        ("Sentence #,Word,Tag\nS1,a,O\n,b,O\nS2,c,O\n,d,O\nS1,e,O\n", 6, "add a column document"),
        ("doc,sent_id,word,tag\nA,1,a,O\nB,1,b,O\nA,1,c,O\n", 4, 'continues the sentence "1" of the document "A"'),
        (
            "sentence,word_id,word,tag\n1,1,a,O\n1,3,c,O\n1,2,b,O\n",
            4,
            'word number 2 of the sentence "1" follows number 3; sort the rows by sentence and word',
        ),
        ("sentence,word,tag\n1,a,O\n1,b,O\nsentence,word,tag\n2,c,O\n", 4, "repeats the header, as in files that"),
        ("sentence,word,tag\n1,a,O\n1, ,O\n", 3, 'has no word in the column "word"'),
    ],
)
def test_rows_that_are_not_in_order(write, content, line, message, is_json):
    if is_json:
        header, *rows = [row.split(",") for row in content.splitlines()]
        content = "\n".join(json.dumps(dict(zip(header, row, strict=True))) for row in [header, *rows][1:])
        shift = 1
    else:
        shift = 0
    path = write("ner.jsonl" if is_json else "ner.csv", content)
    found = re.sub(r"\{} ([0-9])", lambda match: f"line {int(match[1]) - shift}", message)
    with pytest.raises(ValueError, match=re.escape(f"{path} line {line - shift}") + ".*" + re.escape(found)):
        read_conll(path)


def test_the_interleaved_sentences_of_another_project(shared_dir):
    path = shared_dir("data/awkward/third") / "ner_interleaved_sentences.csv"
    with pytest.raises(
        ValueError, match='line 6 continues the sentence "0", whose words ended in line 4; sort the rows'
    ):
        read_conll(path)


def test_a_column_of_sentences_without_a_value(write):
    with pytest.raises(ValueError, match='the column "sentence" is empty in every row'):
        read_conll(write("ner.csv", "sentence,word,tag\n,a,O\n,b,O\n"))


@pytest.mark.parametrize(
    ("cells", "tags", "log"),
    [
        (["name=B-PER", "SpaceAfter=No|name=I-PER", "name=O"], "B-PER I-PER O", '"name=" .* without it are O: 0'),
        (["SpaceAfter=No", "NER=B-X|Gloss=a", "_"], "O B-X O", '"NER=" .* without it are O: 2'),
        (["ne=S-X|Typo=Yes", "_", "ne=O"], "B-X O O", '"ne=" .* without it are O: 1'),
        (["B-X", "I-X", "O"], "B-X I-X O", None),
    ],
)
def test_tags_among_the_keys_of_a_column(write, messages, cells, tags, log):
    lines = (f"{number}\tw{number}\t_\t{cell}" for number, cell in enumerate(cells, 1))
    path = write("train.conllu", "# text = a\n" + "\r\n".join(lines) + "\r\n")
    for options in ({}, {"tag_column": 3}, {"needs_tags": False}):
        messages.clear()
        [sentence] = read_conll(path, **options)
        assert " ".join(sentence.tags) == tags
        assert any(re.search(f"the tags are {log}", line) for line in messages) == (log is not None)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["a=B-X|b=O", "_"], 'has tags in "a=" and "b=" of one column'),
        (["SpaceAfter=No", "_"], 'the tag "SpaceAfter=No" is not one of BIO'),
        (["name=Z-X", "name=O"], 'the tag "name=Z-X" is not one of BIO'),
    ],
)
def test_keys_without_clear_tags(write, cells, message):
    lines = (f"{number}\tw\t_\t{cell}\n" for number, cell in enumerate(cells, 1))
    with pytest.raises(ValueError, match=message):
        read_conll(write("train.conllu", "".join(lines)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "We O\n\nmet O\n\nAnna B-X\n\n"),
        ("a.tsv", "We\tO\r\n \r\nmet\tO\r\n\t\r\nAnna\tB-X\r\n"),
        ("a.conll", "-DOCSTART- O\n\nWe O\n\n\nmet O\n\n\nAnna B-X"),
        ("a.csv", "sentence,word,tag\n1,We,O\n2,met,O\n3,Anna,B-X\n"),
        ("a.jsonl", '{"words": ["We"], "tags": ["O"]}\n' * 3),
    ],
)
def test_sentences_of_one_word_are_a_warning(write, messages, name, content):
    read_conll(write(name, content))
    assert any(
        "3 of 3 sentences have one word; if these words belong to longer sentences, " in line for line in messages
    )
    messages.clear()
    read_conll(write("b.txt", "We O\n\nmet O\n\nAnna B-X\nHolm I-X\n"))
    assert not any("one word" in line for line in messages)


def test_the_double_spaced_file_of_another_project(shared_dir, messages):
    read_conll(shared_dir("data/awkward/third") / "ner_double_spaced.txt")
    assert "a blank line ends a sentence, so remove those between the words of one" in messages[0]
