"""Tables for people and programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.evaluation.tables import escaped, tab_separated, text_table, unescaped


def test_a_table_for_people_is_aligned():
    table = text_table(["", "f1", "examples"], [["yes", "0.5000", "7"], [], ["macro", "1", "12345678"]])
    assert table == (
        "           f1  examples\n"  #
        "yes    0.5000         7\n"
        "\n"
        "macro       1  12345678\n"
    )


def test_a_row_is_a_line_whatever_stands_in_it():
    table = tab_separated(["a\tb", "c"], [["x\ny\r", 'with "quotes"'], ["\\n", 3]])
    assert table == 'a\\tb\tc\nx\\ny\\r\twith "quotes"\n\\\\n\t3\n'
    rows = [[unescaped(cell) for cell in line.split("\t")] for line in table.split("\n")[:-1]]
    assert rows == [["a\tb", "c"], ["x\ny\r", 'with "quotes"'], ["\\n", "3"]]


@given(st.text(alphabet=st.one_of(st.sampled_from("\\tnr\t\n\r"), st.characters())))
def test_escapes_are_taken_back(text):
    assert unescaped(escaped(text)) == text
    assert not {"\t", "\n", "\r"} & set(escaped(text))


def test_every_row_is_as_long_as_the_header():
    with pytest.raises(ValueError, match="^row 2 has 1 values, but the header has 2; give as many$"):
        tab_separated(["a", "b"], [["x", "y"], ["x"]])
