"""Reading text: documents and sentences as the original BERT splits them, and the characters it drops."""

import os

import pytest
from tokenized import read_documents

from bert_keras.data_prep.corpus.documents import Documents, find_text_files, inspect_texts


def sentences_of(documents, tokenizer):
    """Returns the documents in order, as lists of sentences, each a list of tokens."""
    starts = documents.sentence_starts
    result = []
    for index in range(len(documents)):
        first, end = documents.sentences(index)
        spans = [(starts[i], starts[i + 1]) for i in range(first, end)]
        result.append([" ".join(tokenizer.convert_ids_to_tokens(documents.tokens[a:b])) for a, b in spans])
    return result


def read(tmp_path, tokenizer, *contents, **options):
    files = []
    for number, content in enumerate(contents):
        files.append(str(tmp_path / f"{number}.txt"))
        with open(files[-1], "wb") as file:
            file.write(content)
    return sentences_of(read_documents(files, tokenizer, **options), tokenizer)


def test_a_line_is_a_sentence_and_blank_lines_end_documents(tmp_path, letters_tokenizer):
    text = b"\n\n a b \nc\n\n \t \nd\n\x00\xc2\xad\ne\n\n"
    # A line of a control character and a soft hyphen has no token, but it is not blank, so it does not end a document.
    assert read(tmp_path, letters_tokenizer, text) == [["a b", "c"], ["d", "e"]]


def test_the_end_of_a_file_ends_no_document(tmp_path, letters_tokenizer, messages):
    assert read(tmp_path, letters_tokenizer, b"a\n\n", b"b") == [["a"], ["b"]]
    assert messages == []
    assert read(tmp_path, letters_tokenizer, b"a\n\nb", b"c\n\nd\n", b"e\n\n", b"f") == [
        ["a"],
        ["b", "c"],
        ["d", "e"],
        ["f"],
    ]
    assert len(messages) == 1
    assert messages[0].endswith(
        f"0.txt ends without a blank line, so its last document continues in {tmp_path}/1.txt, as in the original; "
        "1 more files end the same way; if each file is a document, give documents=file"
    )


def test_bytes_that_are_not_utf8_are_dropped_and_reported(tmp_path, letters_tokenizer, messages):
    # A line of dropped bytes only is blank.
    assert read(tmp_path, letters_tokenizer, b"a\n", b"b\n\xffc\xe2\x82d\n\xff\ne") == [["a", "b", "c ##d"], ["e"]]
    assert messages[0] == (
        f"{tmp_path}/1.txt line 2: not valid UTF-8; dropped 4 bytes in 2 lines, as the original does "
        "(strict_utf8 refuses them)"
    )


def test_strict_utf8_names_file_and_line(tmp_path, letters_tokenizer):
    with pytest.raises(ValueError, match=r"1\.txt line 3: byte 0xe2 is not valid UTF-8; convert the file to UTF-8, or"):
        read(tmp_path, letters_tokenizer, b"a\n", b"b\n\nc\xe2\x82d\n", strict_utf8=True)


def test_carriage_returns_are_dropped_and_reported_inside_a_line(tmp_path, letters_tokenizer, messages):
    assert read(tmp_path, letters_tokenizer, b"a b\r\n\r\nc\r\r\n") == [["a b"], ["c"]]
    assert messages == []
    assert read(tmp_path, letters_tokenizer, b"a\rb\n") == [["a ##b"]]
    assert f"{tmp_path}/0.txt line 1: a carriage return inside the line is dropped and joins the words" in messages[0]


def test_tokens_take_two_bytes_until_the_vocabulary_outgrows_them():
    for vocab_size, bytes_per_token in ((1 << 16, 2), ((1 << 16) + 1, 4)):
        documents = Documents(vocab_size)
        documents.add_sentence([[vocab_size - 1, 0]])
        documents.add_sentence([[]])
        assert documents.tokens.tolist() == [vocab_size - 1, 0]
        assert documents.tokens.itemsize == bytes_per_token
        assert documents.num_sentences == 1
        assert len(documents) == 0
        documents.end_document()
        documents.end_document()
        assert len(documents) == 1


def test_files_of_a_pattern_are_sorted_and_patterns_keep_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "c.text", ".d.txt", "e[1].x"):
        (tmp_path / name).touch()
    assert find_text_files("c.text, *.txt") == ["c.text", "a.txt", "b.txt"]
    assert find_text_files("e[1].x") == ["e[1].x"]
    with pytest.raises(FileNotFoundError, match=r'input_file: "no\*\.txt" matches no file'):
        find_text_files("a.txt,no*.txt")
    with pytest.raises(ValueError, match='input_file="a.txt," has an empty name next to a comma; remove the comma'):
        find_text_files("a.txt,")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_files_are_checked_before_any_is_read(tmp_path, messages):
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("a")
    os.mkfifo(tmp_path / "pipe")  # to read from it would never end
    text = str(tmp_path / "text")
    for files, error, sentence in (
        ([], ValueError, "no input file is given"),
        ([text, f"{tmp_path}/empty"], ValueError, 'empty" is empty; leave it out, or look at how it was made'),
        ([str(tmp_path)], ValueError, "is a folder; name its files$"),
        ([f"{tmp_path}/pipe"], ValueError, 'pipe" is not an ordinary file, but a pipe or a device; write its'),
        ([f"{tmp_path}/none"], FileNotFoundError, 'the input file ".*none" does not exist; check the path'),
        ([f"{text}/x"], ValueError, 'the input file ".*/text/x" cannot be read: Not a directory'),
    ):
        with pytest.raises(error, match=sentence):
            inspect_texts(files)
    assert messages == []
    inspect_texts([text, text])
    assert messages == [f"{text} is given more than once; reading it each time, as the original does"]


@pytest.fixture
def same_files(tmp_path, monkeypatch):
    """Two files in the folder texts, and other ways to them."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / "texts").mkdir(exist_ok=True)
        (tmp_path / "texts" / name).write_text(f"{name}\n")
    os.symlink("texts/a.txt", "link.txt")
    os.symlink("texts", "linked")
    os.link("texts/a.txt", "hard.txt")


@pytest.mark.parametrize(
    ("patterns", "warned"),
    [
        ("texts/a.txt,./texts/a.txt", "texts/a.txt = ./texts/a.txt"),
        ("link.txt,texts/a.txt,texts/b.txt", "link.txt = texts/a.txt"),
        ("texts,linked", "texts/a.txt = linked/a.txt, texts/b.txt = linked/b.txt"),
        ("hard.txt,texts/../texts/*.txt", "hard.txt = texts/../texts/a.txt"),
        ("texts/b.txt,link*", "texts/b.txt = linked/b.txt, linked/a.txt = link.txt"),
        ("texts,link", None),
        ("texts/a.txt,texts/b.txt", None),
    ],
)
def test_one_file_under_several_names_is_warned_of(same_files, messages, patterns, warned):
    if patterns == "texts,link":
        os.rename("link.txt", "link")
        patterns = "texts/b.txt,link"
    inspect_texts(find_text_files(patterns))
    found = [message for message in messages if "given more than once" in message]
    names = {frozenset(part.split(" = ")) for part in (warned or "").split(", ") if part}
    told = (
        found[0].removesuffix(" is given more than once; reading it each time, as the original does") if found else ""
    )
    assert {frozenset(part.split(" = ")) for part in told.split(", ") if part} == names


@pytest.mark.parametrize(
    ("links", "left_out"),
    [
        ({"texts/up": ".."}, []),
        ({"texts/self": "."}, ["texts/self"]),
        ({"texts/inner/back": "../.."}, []),
        ({"texts/inner/back": "../../texts"}, ["texts/inner/back"]),
        ({"texts/other": "../other", "other/texts": "../texts"}, ["texts/other/texts"]),
    ],
)
def test_a_link_to_a_folder_above_does_not_lead_in_a_circle(same_files, messages, links, left_out):
    os.unlink("linked")
    for name, target in links.items():
        os.makedirs(os.path.dirname(name), exist_ok=True)
        os.symlink(target, name)
    files = find_text_files("texts")
    assert len(files) < 10
    assert {"texts/a.txt", "texts/b.txt"} <= {*files}
    told = [message for message in messages if "is a link to a folder that it is in; left out" in message]
    assert [message.split(" is a link")[0] for message in told] == left_out or not left_out


def test_records_and_the_vocabulary_in_the_folder_of_the_text_are_left_out(same_files, messages):
    for name in ("old.tfrecord", "new.tfrecord", "vocab.txt"):
        with open(f"texts/{name}", "wb") as file:
            file.write(b"\x00\xff")
    with open("texts/old.tfrecord.json", "w") as file:
        file.write('{"num_examples": 3}')
    with open("texts/rows.json", "w") as file:
        file.write('{"text": "a"}')
    own = ["texts/new.tfrecord", "linked/vocab.txt"]
    text = ["texts/a.txt", "texts/b.txt", "texts/rows.json"]
    for patterns in ("texts", "texts/*"):
        messages.clear()
        assert find_text_files(patterns, own) == text
        expected = (
            f"{patterns}: left out texts/new.tfrecord, texts/old.tfrecord, texts/old.tfrecord.json and 1 more files: "
            "records and a vocabulary are not text"
        )
        assert expected in messages
    assert find_text_files("texts/vocab.txt", own) == ["texts/vocab.txt"]  # named, so the program reports it
    assert find_text_files("texts/*.txt", []) == ["texts/a.txt", "texts/b.txt", "texts/vocab.txt"]
    for name in text:
        os.unlink(name)
    with pytest.raises(FileNotFoundError, match='input_file: "texts" has no text files; give a folder with text files'):
        find_text_files("texts", own)
