"""JSON files from users."""

import json
import re

import pytest

from bert_keras.storage.json_files import iterate_objects, read_json


def test_values_come_back(tmp_path):
    value = {"a": [1, 2.5, None, True], "b": "ü \U0001f600 \\ud800"}
    (tmp_path / "a.json").write_text(json.dumps(value), encoding="utf-8")
    assert read_json(tmp_path / "a.json") == value
    (tmp_path / "a.json").write_text(json.dumps(value, ensure_ascii=False), encoding="utf-16")
    assert read_json(tmp_path / "a.json") == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{\n"a": }', r"a.json line 2: not valid JSON \(Expecting value, column 6\); give a config"),
        ("[" * 100_000, "a.json: JSON is nested too deeply; give a config"),
        ("[1,\n" + "7" * 5000 + "]", "a.json line 2: a number of more than 4,300 digits; give a config"),
        (
            '["a",\n"b \\ud800 c"]',
            r"a.json line 2: \\ud800 is half of a surrogate pair.*; write the character",
        ),
        ('["\\ude00\\ud83d"]', r"a.json line 1: \\ude00 is half of a surrogate pair"),
        ('["\\\\\\uDC00"]', r"a.json line 1: \\uDC00 is half of a surrogate pair"),
    ],
)
def test_mistakes_are_one_sentence_with_file_and_line(tmp_path, text, sentence):
    (tmp_path / "a.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence) as error:
        read_json(tmp_path / "a.json", "give a config")
    assert "\n" not in str(error.value)


def test_a_line_of_a_file_is_named_by_its_number():
    for text in ("{", "[1]", "[" * 100_000, "7" * 5000, '"\\ud800"'):
        lines = iterate_objects([" ", text, "{}"], "a.jsonl line {}".format, "write one object in a line")
        (number, error), last = lines
        assert (number, last) == (2, (3, {}))
        assert re.match("a.jsonl line 2: .*; write (one object in a line|the character itself)", str(error))
