"""Raw text in every format gives the same lines, documents and records as text in the format of the original BERT."""

import bz2
import contextlib
import gzip
import io
import json
import pathlib
import random
import sys

import pytest
from tiny_data import examples_of
from tokenized import opened_texts, read_documents

from bert_keras.data_prep import build_vocab, create_pretraining_data
from bert_keras.data_prep.corpus import text_lines, text_sources
from bert_keras.data_prep.corpus.documents import find_text_files, inspect_texts
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.text_sources import received
from bert_keras.storage import paths

SPLIT = TextOptions(split_sentences=True)
ROWS = ["Ab cd. De fg!\n\nGh ij.", None, "Dr. J. Kl mn. No pq."]
LINES = "Ab cd.\nDe fg!\nGh ij.\n\n\nDr. J. Kl mn.\nNo pq.\n\n"


def read(files, options=SPLIT):
    with opened_texts(files, options) as texts:
        return "".join(paths.read_text(text.path) for text in texts)


@pytest.fixture
def pyarrow():
    pytest.importorskip("pyarrow.parquet")
    return pytest.importorskip("pyarrow")


def json_lines(rows, field="text"):
    return "".join(json.dumps({"id": number, field: row}) + "\n" for number, row in enumerate(rows))


def write_arrow(pyarrow, folder, rows):
    """Writes what `save_to_disk` of the package datasets writes."""
    folder.mkdir(parents=True)
    table = pyarrow.table({"id": range(len(rows)), "text": rows})
    with pyarrow.ipc.new_stream(str(folder / "data-00000-of-00001.arrow"), table.schema) as stream:
        stream.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')


@pytest.mark.parametrize("name", ["a.jsonl", "a.JSON", "a.jsonl.gz", "a.ndjson.bz2", "a", "utf16.jsonl"])
def test_json_lines(write, name):
    content = (json_lines(ROWS, "body") + "\n").encode("utf-16" if name.startswith("utf16") else "utf-8")
    content = {"gz": gzip.compress, "bz2": bz2.compress}.get(name.rpartition(".")[2], bytes)(content)
    # Without an ending, it is the given field that tells.
    assert read([str(write(name, content))], TextOptions("body", split_sentences=True)) == LINES


@pytest.mark.parametrize("name", ["a.csv", "a.TSV", "a.csv.gz", "utf16.csv"])
def test_tables_of_text(write, name):
    separator = "\t" if "tsv" in name.lower() else ";"
    rows = [separator.join((str(number), f'"{row or ""}"')) for number, row in enumerate(ROWS)]
    content = "\n".join([separator.join(("id", "body")), *rows]).encode("utf-16" if "utf16" in name else "utf-8")
    file = str(write(name, gzip.compress(content) if name.endswith("gz") else content))
    assert read([file], TextOptions("body", split_sentences=True)) == LINES
    with pytest.raises(UnusableTextError, match='no columns "text", .* its columns are id, body; name the column of t'):
        read([file])


def test_a_row_of_a_table_that_has_another_number_of_cells(write):
    file = write("a.csv", 'text,id\n"a b.\nc d.",1\ne,f,2\n')
    with pytest.raises(UnusableTextError, match="a.csv line 4 has 3 cells, but the first row has 2; look for"):
        read([str(file)])


def test_json_output_without_an_ending_stays_text_if_no_field_is_given(write):
    assert read([str(write("a", '{"text": "b c."}\n'))], TextOptions()) == '{"text": "b c."}\n'


def test_parquet_and_folders_of_the_package_datasets(pyarrow, tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"text": ROWS}), tmp_path / "a.parquet", row_group_size=2)
    assert read([str(tmp_path / "a.parquet")]) == LINES
    write_arrow(pyarrow, tmp_path / "both" / "train", ROWS)
    [file] = find_text_files(str(tmp_path / "both" / "train"))
    assert read([file]) == LINES
    (tmp_path / "both" / "dataset_dict.json").write_text("{}")
    with pytest.raises(ValueError, match='is a dataset with the splits train; name one of them, for example ".*train"'):
        find_text_files(str(tmp_path / "both"))


def test_wikiextractor(write):
    article = '<doc id="{0}" url="https://x?curid={0}" title="{1}">\n{1}\n\n{2}\n\n</doc>\n'
    text = article.format(1, 'A "b"', "Ab cd. De &lt;fg&gt;!\nGh ij.") + article.format(2, "K", "Kl mn.")
    assert read([str(write("wiki_00", text))]) == "Ab cd.\nDe <fg>!\nGh ij.\n\nKl mn.\n\n"
    assert read([str(write("wiki_01", text))], TextOptions()) == "Ab cd. De <fg>!\nGh ij.\n\nKl mn.\n\n"


ARTICLE = '<doc id="1" url="x" title="A">\nA\n\nBc.\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ARTICLE, 'wiki line 1: the article "A" has no </doc>; add it, or extract'),
        (ARTICLE + ARTICLE + "</doc>\n", 'wiki line 1: the article "A" has no </doc>; add it'),
        (ARTICLE + "</doc>\n\n" + ARTICLE, 'wiki line 7: the article "A" has no </doc>'),
        (ARTICLE + "De.</doc>\n", 'wiki line 1: the article "A" has no </doc>'),
        (ARTICLE + "</doc>\n \nDe.\n" + ARTICLE, 'wiki line 7: "De." is outside the articles, which begin with <doc'),
        (ARTICLE + "</doc>\n</doc>\n", 'wiki line 6: "</doc>" is outside'),
        (ARTICLE + '</doc>\n<doc id="2">\nDe.\n</doc>\n', 'wiki line 6: "<doc id="2">" is outside'),
        (ARTICLE.replace("\n", "\r") + "</doc>\rDe.\r", 'wiki line 6: "De." is outside'),
    ],
)
@pytest.mark.parametrize("options", [SPLIT, TextOptions()])
def test_no_text_of_wikiextractor_vanishes(write, text, problem, options):
    with pytest.raises(UnusableTextError, match=problem):
        read([str(write("wiki", text))], options)


ENDS = {"a line feed": "\n", "a carriage return": "\r", "both": "\r\n", "a line end written twice": "\r\r\n"}
SPACES = ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\t", "\u00a0"]


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_lines_end_alike_in_text_and_in_rows(write, end):
    """Only plain text without options keeps the original's rule, which drops carriage returns."""
    text = end.join(["Ab cd. De", "fg.", "", "Hi."])
    options = TextOptions(documents="file", split_sentences=True)
    for last in ("", end):
        assert read([str(write("a.txt", text + last))], options) == "Ab cd.\nDe\nfg.\nHi.\n\n"
        assert read([str(write("a.jsonl", json_lines([text + last])))]) == "Ab cd.\nDe\nfg.\nHi.\n\n"
    assert read([str(write("a.txt", text))]) == "Ab cd.\nDe\nfg.\n\nHi.\n\n"
    article = end.join(['<doc id="1" url="" title="T">', "T", text, "</doc>", ""])
    assert read([str(write("wiki", article))]) == "Ab cd.\nDe\nfg.\nHi.\n\n"


@pytest.mark.parametrize("space", SPACES, ids=ascii)
def test_other_white_space_ends_no_line(write, space):
    text, expected = f"Ab cd. De{space}fg.", "Ab cd.\nDe fg.\n\n"
    assert read([str(write("a.txt", text))]) == read([str(write("a.jsonl", json_lines([text])))]) == expected
    assert read([str(write("a.jsonl", json_lines([text])))], TextOptions()) == "Ab cd. De fg.\n\n"


def test_a_long_line_is_read_in_pieces(write, monkeypatch, letters_tokenizer):
    """The pieces change nothing, and a task does not read the rest of a line that ends after its own part."""
    rng = random.Random(0)
    line = "".join(rng.choice(["a", "b. ", "C ", " ", "\u0301", "\t", "\u3000", "\x1c"]) for _ in range(3000))
    plain, converted = (str(write(name, f"{line}\n\nx y.\n")) for name in ("a.txt", "b.txt"))

    def tokens():
        documents = read_documents([plain, converted], letters_tokenizer)
        split = read_documents([converted], letters_tokenizer, options=SPLIT)
        return [list(part) for each in (documents, split) for part in (each.tokens, each.sentence_starts)]

    whole = tokens()
    monkeypatch.setattr(text_lines, "_PIECE", 50)
    assert tokens() == whole
    reads = []

    class Counted(io.FileIO):
        def readline(self, size=-1):
            reads.append(size)
            return super().readline(size)

    monkeypatch.setattr(text_lines, "open", lambda path, mode: Counted(path), raising=False)
    file = text_lines.TextFile(plain, plain)
    assert list(text_lines.read_byte_lines(file, 100, 200)) == []
    assert len(reads) <= 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SPLIT, "# A\nBc de.\nDx e\nf.\n\n== G ==\nH.\n\n"),
        (TextOptions(documents="file"), "# A\nBc de. Dx e\nf.\n== G ==\nH.\n\n"),
        (TextOptions(documents="line"), "# A\n\nBc de. Dx e\n\nf.\n\n== G ==\n\nH.\n\n\n"),
        (TextOptions(documents="heading", split_sentences=True), "\nBc de.\nDx e\nf.\n\nH.\n\n"),
        (TextOptions(documents="heading", split_sentences=True, join_lines=True), "\nBc de.\nDx e f.\n\nH.\n\n"),
    ],
)
def test_documents_and_joined_lines(write, options, expected):
    text = "# A\r\nBc de.  Dx\te\r\nf.\r\n\r\n== G ==\r\nH.\r\n"
    assert read([str(write("a.txt", "\ufeff" + text))], options) == expected


def test_the_format_of_the_original_is_read_in_place(write):
    file = str(write("a.txt", "a b\r\n\nc\rd\n"))
    with opened_texts([file]) as texts:
        assert texts == [text_sources.TextFile(file, file)]


@pytest.mark.parametrize("documents", ["blank_line", "heading", "file"])
def test_a_large_file_is_converted_in_parts(write, monkeypatch, documents):
    rng = random.Random(4)
    text = "".join(rng.choice(["Ab cd. De fg.\n", "\n", "# G\n", "\u529b\u3002\u529b\n"]) for _ in range(40)) + "Z."
    file, options = str(write("a.txt", text)), TextOptions(documents=documents, split_sentences=True)
    whole = read([file], options)
    for size in (100, 23):
        monkeypatch.setattr(text_sources, "_PART", size)
        with opened_texts([file], options) as texts:
            assert "".join(paths.read_text(text.path) for text in texts) == whole
            num_parts = -(-len(text.encode()) // size)
            assert [text.continues for text in texts] == [True] * (num_parts - 1) + [False]


def test_a_mistake_in_a_later_part_names_its_line(write, monkeypatch):
    monkeypatch.setattr(text_sources, "_PART", 40)
    file = write("a.jsonl", json_lines("ab") * 9 + '{"text": 3}\n')
    with pytest.raises(UnusableTextError, match='a.jsonl line 19: "text" is of the type int, but text is needed'):
        read([str(file)])
    file = write("b.txt", b"ab\n" * 30 + b"c\xe9d\n")
    with pytest.raises(UnusableTextError, match="b.txt line 31: byte 0xe9 is not valid UTF-8; convert the file"):
        read([str(file)])


@pytest.mark.parametrize(
    ("name", "content", "options", "problem"),
    [
        ("a.jsonl", '{"body": "a"}\n', {}, 'a.jsonl line 1: has no field "text", but body; name the field of the text'),
        (
            "a.jsonl",
            '["a"]\n',
            {},
            "a.jsonl line 1: a JSON list instead of an object; each line needs an object such as",
        ),
        ("a.json", '{\n"text": "a"}\n', {}, "a.json line 1: not valid JSON .*; each line needs an object such as"),
        ("a.jsonl", '{"text": "a \\ud800"}\n', {}, r"line 1: \\ud800 is half of a surrogate pair"),
        ("a.jsonl", '{"text": ' + "[" * 100_000 + "\n", {}, "a.jsonl line 1: JSON is nested too deeply"),
        ("a.jsonl", b'{"text": "\xe9"}\n', {}, "a.jsonl line 1: byte 0xe9 is not valid UTF-8"),
        ("a.txt", "a\n", {"text_field": "b"}, "text_field=b names a field of JSON lines, .* but .*a.txt .* leave"),
        ("a.jsonl", '{"text": "a"}', {"documents": "file"}, "documents=file is for text files, but .*a.jsonl has"),
        ("a.txt", "a\n", {"documents": "row"}, "documents=row: 'row' is not one of blank_line, file, line"),
        ("a.txt", "a\n", {"join_lines": True}, "join_lines makes one line of each paragraph.*split_sentences"),
        ("a.parquet", b"PAR1\x15 cut short", {}, "a.parquet cannot be read .*; it may be cut short, so copy it"),
        (
            "a.txt",
            gzip.compress(b"PAR1\x15 and more", mtime=0),
            {},
            "a.txt is a Parquet file inside gzip; unpack it first",
        ),
    ],
)
def test_mistakes_are_told_before_any_work(write, name, content, options, problem):
    with pytest.raises(ValueError, match=problem):
        inspect_texts([str(write(name, content))], TextOptions(**options))


def test_a_missing_package_or_column_and_a_damaged_text_are_named(pyarrow, tmp_path, monkeypatch):
    file = str(tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"id": [1], "body": ["a"]}), file)
    with pytest.raises(ValueError, match='a.parquet has no column "text", but id, body; name the column'):
        inspect_texts([file])
    offsets, characters = b"\0\0\0\0\2\0\0\0", b"\xe9a"
    text = pyarrow.StringArray.from_buffers(1, *map(pyarrow.py_buffer, (offsets, characters)))
    pyarrow.parquet.write_table(pyarrow.table({"text": text}), file)
    with pytest.raises(ValueError, match="a.parquet cannot be read .'utf-8' codec.*; it may .* or write it again"):
        inspect_texts([file])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"needs pyarrow; run pip install 'bert-keras\[parquet\]'"):
        inspect_texts([file])


def test_folders_give_all_of_their_files(tmp_path, messages):
    for name in ("b/wiki_00", "b/c/z.txt", "a.txt", ".hidden", "_SUCCESS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n")
    found = [f"{tmp_path}/{name}" for name in ("a.txt", "b/c/z.txt", "b/wiki_00")]
    assert find_text_files(str(tmp_path)) == found
    assert find_text_files(f"{tmp_path}/b*") == found[1:]
    assert messages[0] == f"{tmp_path}: found 3 files"
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match='empty" has no text files; give a folder with text'):
        find_text_files(f"{tmp_path}/empty")


@pytest.mark.parametrize("state", ["", "{}", "[]", '{"_data_files": [1]}', "[" * 100_000])
def test_a_damaged_list_of_a_dataset_is_named(tmp_path, state):
    (tmp_path / "state.json").write_text(state)
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(ValueError, match="state.json does not list the dataset's files; save it again"):
        find_text_files(str(tmp_path))


def test_the_work_of_a_killed_program_is_not_taken_for_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(gzip.compress(b"a\n", mtime=0))
    with opened_texts([str(tmp_path / "a.txt")], work_dir=str(tmp_path)):
        assert len(list(tmp_path.iterdir())) == 2
        assert find_text_files(str(tmp_path)) == find_text_files(f"{tmp_path}/*") == [f"{tmp_path}/a.txt"]


def test_standard_input_has_a_name_of_its_content(tmp_path):
    names = []
    for _ in range(2):
        with received(["-", "b.txt"], str(tmp_path), io.BytesIO(b"Ab cd. Ef.\n")) as files:
            assert files[1:] == ["b.txt"]
            assert read(files[:1]) == "Ab cd.\nEf.\n\n"
            names.append(files[0])
        assert list(tmp_path.iterdir()) == []
    assert len(set(names)) == 1


def test_messages_name_standard_input_and_not_its_copy(tmp_path, messages):
    for content, text_field, mistake in (
        (b"", None, 'the input file "standard input" is empty'),
        (b'{"text": 5}\n', "text", "standard input line 1: "),
        (b'{"text": "a"}\n', None, None),
    ):
        ends = contextlib.nullcontext() if mistake is None else pytest.raises(ValueError, match=f"^{mistake}")
        with ends, received(["-"], str(tmp_path), io.BytesIO(content)) as files:
            inspect_texts(files, TextOptions(text_field=text_field))
    assert [message[:42] for message in messages] == ["standard input: read as text, but begins w"]


def test_a_copy_of_standard_input_that_a_killed_program_left_is_removed_at_the_next_start(tmp_path):
    (tmp_path / ".standard-input-0").write_text("of a killed program")
    with received(["-"], str(tmp_path), io.BytesIO(b"a\n")) as [first]:
        assert [str(path) for path in tmp_path.iterdir()] == [first]
        with received(["-"], str(tmp_path), io.BytesIO(b"b\n")) as [second]:
            assert {str(path) for path in tmp_path.iterdir()} == {first, second}
            assert pathlib.Path(first).name.startswith(".")
    assert list(tmp_path.iterdir()) == []


def test_other_names_of_standard_input_are_the_same_stream():
    assert find_text_files("-,/dev/stdin, /dev/fd/0,/proc/self/fd/0") == ["-"] * 4


def test_the_builder_gives_the_records_of_the_text_in_its_own_format(write, tmp_path, letters_vocab_file):
    rng = random.Random(0)
    rows = [
        " ".join(
            "".join(rng.choices("abcdefg", k=rng.randint(2, 6))).capitalize() + "q" + rng.choice(".!?")
            for _ in range(rng.randint(1, 9))
        )
        for _ in range(20)
    ]
    write("rows.jsonl", json_lines(rows))
    write("lines.txt", "\n\n".join(row.replace(" ", "\n") for row in rows) + "\n")
    flags = [f"--vocab_file={letters_vocab_file}", "--max_seq_length=16", "--max_predictions_per_seq=3"]
    for name, more in (("lines.txt", []), ("rows.jsonl", ["--split_sentences"])):
        output = f"--output_file={tmp_path}/{name}.tfrecord"
        create_pretraining_data.main(["program", f"--input_file={tmp_path}/{name}", output, *flags, *more])
    assert examples_of(tmp_path / "rows.jsonl.tfrecord") == examples_of(tmp_path / "lines.txt.tfrecord")
    metadata = json.loads((tmp_path / "rows.jsonl.tfrecord.json").read_text())
    assert metadata["settings"]["split_sentences"] is True


@pytest.mark.slow
def test_a_vocabulary_of_json_lines_is_that_of_their_text(write, tmp_path):
    rows = ["Ab ab abc.", "Ba ab b."] * 9
    write("rows.jsonl", json_lines(rows))
    write("lines.txt", "\n".join(rows))
    vocabs = []
    for name in ("rows.jsonl", "lines.txt"):
        flags = [f"--input_file={tmp_path}/{name}", f"--vocab_file={tmp_path}/{name}.vocab"]
        build_vocab.main(["program", *flags, "--vocab_size=40", "--num_unused=2"])
        vocabs.append((tmp_path / f"{name}.vocab").read_text())
    assert vocabs[0] == vocabs[1]
    assert "\nab\n" in vocabs[0]
