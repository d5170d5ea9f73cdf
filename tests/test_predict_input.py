"""The program's input: one text after another, limits, encodings, and tables by column."""

import gzip
import io
import json
import os
import pathlib
import subprocess
import sys

import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import answers_in, constant_model, write_model

import predict


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model that answers paris 0.5 for every mask, and 0.9 for every pair."""
    return write_model(tmp_path_factory.mktemp("model"), constant_model({"paris": 0.5}, follows=0.9))


def test_a_bad_line_can_be_reported_instead(ask, tmp_path):
    (tmp_path / "texts.txt").write_bytes(b"he [MASK]\nwas\n\xff\nso [MASK]\n")
    file = f"--input_file={tmp_path / 'texts.txt'}"
    first, second, third, last = answers_in(ask("fill_mask", "--json", "--on_error=report", file))
    assert (first["text"], last["text"]) == ("he [MASK]", "so [MASK]")
    assert second == {
        "source": f"{tmp_path}/texts.txt line 2",
        "error": f'{tmp_path}/texts.txt line 2 has no [MASK]: "was"; write [MASK] where a word is to be guessed',
    }
    assert third["error"] == f"{tmp_path}/texts.txt line 3: not UTF-8 (byte 0xff); save it as UTF-8"
    assert f"\nno answer: {tmp_path}/texts.txt line 2 has no [MASK]" in ask("fill_mask", "--on_error=report", file)


@pytest.mark.parametrize(
    ("name", "lines", "errors"),
    [
        (
            "a.csv",
            ["text,label", "he,1", ",2", "she", '"so", 4'],
            {3: 'the column "text" is empty', 4: "1 cell, but the"},
        ),
        ("a.csv", ["text,label", "he", "she"], {2: "1 cell, but the first", 3: "1 cell, but the first"}),
        (
            "a.jsonl",
            ['{"text": "he"}', '{"text": 5}', "[]", '{"text": "so"}', '{"text": " "}', "{"],
            {2: 'the column "text" is 5', 3: "a JSON list", 5: 'the column "text" is empty', 6: "not valid JSON"},
        ),
    ],
)
def test_a_bad_row_of_a_table_can_be_reported_instead(ask, tmp_path, name, lines, errors):
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    answers = answers_in(ask("score", "--json", "--on_error=report", f"--input_file={tmp_path / name}"))
    first_line = 2 if name == "a.csv" else 1
    assert [number for number, answer in enumerate(answers, first_line) if "error" in answer] == [*errors]
    assert len(answers) == len(lines) + 1 - first_line
    for number, message in errors.items():
        assert answers[number - first_line]["error"].startswith(f"{name} line {number}: {message}")
        assert answers[number - first_line]["source"] == f"{name} line {number}"
    with pytest.raises(ValueError, match=f"^{name} line {min(errors)}: ") as error:
        ask("score", f"--input_file={tmp_path / name}")
    assert "--skip_bad_rows" not in str(error.value)


def test_a_long_line_can_be_reported_instead(ask, tmp_path):
    (tmp_path / "a.txt").write_text(f"he\n{'a ' * 500}\nshe\n")
    first, second, third = answers_in(
        ask("score", "--json", "--on_error=report", "--max_chars=10", f"--input_file={tmp_path / 'a.txt'}")
    )
    assert (first["text"], third["text"]) == ("he", "she")
    assert second["error"].startswith(f"{tmp_path}/a.txt line 2 has more than 160 bytes; make it shorter")


def test_reports_name_flags(ask):
    first, second = answers_in(ask("score", "--json", "--on_error=report", "--max_sequences=1", "he was", "he"))
    assert first["error"].endswith("but --max_sequences is 1; make it shorter, or raise --max_sequences")
    assert second["text"] == "he"


def test_the_user_says_whether_a_table_has_a_header(ask, tmp_path):
    (tmp_path / "a.csv").write_text("he was,note\nshe ate,1\n")
    file, column = f"--input_file={tmp_path / 'a.csv'}", "--text_column=0"
    texts = {}
    for has_header in ("true", "false", "auto"):
        answers = answers_in(ask("score", "--json", file, column, f"--has_header={has_header}"))
        texts[has_header] = [answer["text"] for answer in answers]
    assert texts == {"true": ["she ate"], "false": ["he was", "she ate"], "auto": ["he was", "she ate"]}


def test_answers_come_while_texts_are_still_read(folder, monkeypatch, capsys):
    read_before_the_first_answer = []

    class Lines(io.BytesIO):
        num_read = 0

        def readline(self, size=-1):
            self.num_read += 1
            if capsys.readouterr().out:
                read_before_the_first_answer.append(self.num_read)
            return super().readline(size)

    lines = Lines(b"he was [MASK]\n" * 300)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines))
    predict.main(["predict.py", "--task=fill_mask", f"--init_checkpoint={folder}", "--batch_size=2", "--json"])
    assert read_before_the_first_answer[0] == 3  # one batch, and the next line
    assert lines.num_read == 301


def test_a_byte_that_is_not_utf_8_is_named_before_the_model_is_opened(folder, capsys):
    argument = "bad \udcff byte"  # Python passes the byte 0xff in an argument like this
    with pytest.raises(ValueError, match=r"^argument 2: not UTF-8 \(byte 0xff\); give it as UTF-8$"):
        predict.main(["predict.py", "--task=score", f"--init_checkpoint={folder}", "he", argument])
    assert "loaded" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("task", "arguments", "message"),
    [
        (
            "fill_mask",
            ["[MASK] [MASK]", "--max_masks=1"],
            r"\[MASK\], but --max_masks is 1; make .* raise --max_masks",
        ),
        (
            "score",
            ["he was", "--max_sequences=1"],
            "2 tokens to score, .*, but --max_sequences is 1",
        ),
        (
            "score",
            ["he was", "--max_chars=5"],
            "^argument 1 has 6 characters, but --max_chars is 5; make it",
        ),
        ("score", ["he " * 40], "make it shorter, or choose --long=truncate or --long=window$"),
        (
            "score",
            ["he", "--text_column=a"],
            r"^--text_column is for a table as --input_file \(.csv",
        ),
    ],
)
def test_mistakes_name_flags(ask, task, arguments, message):
    with pytest.raises(ValueError, match=message):
        ask(task, *arguments)


def test_a_line_of_many_bytes_is_not_read(ask, tmp_path):
    (tmp_path / "texts.txt").write_bytes(b"he\n" + b"a" * 200)
    with pytest.raises(
        ValueError, match=r"texts.txt line 2 has more than 160 bytes; make it shorter, or raise --max_chars"
    ):
        ask("score", f"--input_file={tmp_path / 'texts.txt'}", "--max_chars=10")


def test_other_encodings_and_compressed_files_are_read(ask, tmp_path):
    expected = ask("fill_mask", "--json", "é [MASK]", "[MASK] 首")
    (tmp_path / "utf16.txt").write_bytes("é [MASK]\n[MASK] 首\n".encode("utf-16"))
    (tmp_path / "texts.txt.gz").write_bytes(gzip.compress("é [MASK]\n[MASK] 首\n".encode()))
    for name in ("utf16.txt", "texts.txt.gz"):
        assert ask("fill_mask", "--json", f"--input_file={tmp_path / name}") == expected
    (tmp_path / "a.txt").write_bytes(b"PK\x03\x04 and so on")
    with pytest.raises(ValueError, match="a.txt is not text but a zip archive"):
        ask("fill_mask", f"--input_file={tmp_path / 'a.txt'}")


def test_a_table_is_read_by_its_columns(ask, folder, tmp_path, capsys):
    expected = ask("next_sentence", "--json", "he was", "so he ate", "a", "b")
    (tmp_path / "new.csv").write_text('id,sentence1,sentence2\n1,he was,so he ate\n2,"a","b"\n')
    (tmp_path / "new.jsonl").write_text('{"x": "he was", "y": "so he ate"}\n{"x": "a", "y": "b"}\n')
    assert ask("next_sentence", "--json", f"--input_file={tmp_path / 'new.csv'}") == expected
    named = ["--text_column=x", "--text_pair_column=y"]
    assert ask("next_sentence", "--json", f"--input_file={tmp_path / 'new.jsonl'}", *named) == expected
    (tmp_path / "new.tsv").write_text("text\tother\nhe was\tx\na\ty\n")
    capsys.readouterr()
    predict.main(
        ["predict.py", "--task=score", f"--init_checkpoint={folder}", "--json"] + [f"--input_file={tmp_path}/new.tsv"]
    )
    captured = capsys.readouterr()
    assert [answer["text"] for answer in answers_in(captured.out)] == ["he was", "a"]
    assert f'{tmp_path}/new.tsv: texts are read from: "text"' in captured.err
    with pytest.raises(ValueError, match="the column of the second text is not known; name both with"):
        ask("next_sentence", f"--input_file={tmp_path / 'new.tsv'}")
    (tmp_path / "new.csv").write_text("text,label\nhe,1\n,2\n")
    with pytest.raises(ValueError, match="new.csv line 3: "):
        ask("score", f"--input_file={tmp_path / 'new.csv'}")


def test_help_does_not_load_tensorflow():
    code = "import sys, predict, extract_features; print(sorted({'tensorflow', 'keras', 'sklearn'} & {*sys.modules}))"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=pathlib.Path(predict.__file__).parent) == b"[]\n"


def test_another_backend_is_one_sentence(folder):
    process = subprocess.run(
        [sys.executable, predict.__file__, "--task=score", f"--init_checkpoint={folder}", "he"],
        env=os.environ | {"KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 1
    [line] = process.stderr.splitlines()
    assert line.startswith(
        "predict.py: Keras is set to run on jax (KERAS_BACKEND), but `prediction` needs TensorFlow; set"
    )


def test_the_columns_are_those_of_the_training(tmp_path, capsys):
    settings = OF_TEXTS | {"labels": ["no", "yes"]}
    run = write_fine_tuned(tmp_path / "run", random_classifier(2), "classification", **settings)
    (run / "run_config.json").write_text(json.dumps({"settings": {"text_column": "review", "text_pair_column": None}}))
    (tmp_path / "new.csv").write_text("text,review\nwrong,he was\nwrong,she ate\n")
    for folder in (run, run / "model"):
        predict.main(["predict.py", f"--model_dir={folder}", "--json", f"--input_file={tmp_path / 'new.csv'}"])
        captured = capsys.readouterr()
        assert [answer["text"] for answer in answers_in(captured.out)] == ["he was", "she ate"]
        assert 'new.csv: texts are read from: "review"' in captured.err
    (tmp_path / "new.csv").write_text("text,other\nhe was,wrong\n")
    predict.main(["predict.py", f"--model_dir={run}", "--json", f"--input_file={tmp_path / 'new.csv'}"])
    assert answers_in(capsys.readouterr().out)[0]["text"] == "he was"


def test_a_number_of_the_training_counts_only_where_the_header_does_not_name_columns(tmp_path, capsys):
    settings = OF_TEXTS | {"labels": ["no", "yes"]}
    run = write_fine_tuned(tmp_path / "run", random_classifier(2), "classification", **settings)
    (run / "run_config.json").write_text(json.dumps({"settings": {"text_column": "0", "text_pair_column": None}}))
    for lines in (["id,text", "7,he was"], ["he was,no"], ["Text", "he was"]):
        (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
        predict.main(["predict.py", f"--model_dir={run}", "--json", f"--input_file={tmp_path / 'new.csv'}"])
        assert [answer["text"] for answer in answers_in(capsys.readouterr().out)] == ["he was"]
    (tmp_path / "new.csv").write_text("id,date\n7,8\n")
    with pytest.raises(ValueError, match="no column could be the text among id, date; name it with --text_column"):
        predict.main(["predict.py", f"--model_dir={run}", f"--input_file={tmp_path / 'new.csv'}"])


def test_the_choices_of_a_table_are_named(tmp_path, capsys):
    run = write_fine_tuned(tmp_path / "run", random_classifier(1), "multiple_choice", max_seq_length=16)
    (tmp_path / "new.csv").write_text("q,a,b\nhe was,hungry,in\n")
    file = f"--input_file={tmp_path / 'new.csv'}"
    predict.main(["predict.py", f"--model_dir={run}", "--json", file, "--text_column=q", "--choice_columns=a,b"])
    [answer] = answers_in(capsys.readouterr().out)
    assert (answer["text"], answer["choices"]) == ("he was", ["hungry", "in"])
    with pytest.raises(ValueError, match="the columns of the text and its choices are not known; name them with"):
        predict.main(["predict.py", f"--model_dir={run}", file])
