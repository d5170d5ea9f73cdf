"""Tables, and the reports of a run about its predictions."""

import pytest

from bert_keras.evaluation.report_files import errors_table, prediction_rows, predictions_table
from bert_keras.evaluation.tables import tab_separated, text_table


def test_text_tables_are_aligned():
    table = text_table(["", "f1", "examples"], [["yes", "0.5000", "7"], [], ["macro", "1", "12345678"]])
    assert table == (
        "           f1  examples\n"  #
        "yes    0.5000         7\n"
        "\n"
        "macro       1  12345678\n"
    )


def test_a_row_of_a_tab_separated_table_is_one_line():
    table = tab_separated(["a\tb", "c"], [["x\ny\r", 'with "quotes"'], ["\\n", 3]])
    assert table == 'a\\tb\tc\nx\\ny\\r\twith "quotes"\n\\\\n\t3\n'
    with pytest.raises(ValueError, match="^row 2 has 1 values, but the header has 2; give as many$"):
        tab_separated(["a", "b"], [["x", "y"], ["x"]])


def test_predictions_with_ids_texts_and_names():
    assert predictions_table(prediction_rows(["7", "8"], ["Ten\tbirds\n", "c:\\new"], ["yes", "no"])) == (
        "id\tprediction\ttext\n7\tyes\tTen\\tbirds\\n\n8\tno\tc:\\\\new\n"
    )


def test_probabilities_have_a_column_for_each_class():
    table = predictions_table(
        prediction_rows([0, 1], [("a", "b"), ("c", None)], ["y", "n"], [[0.75, 0.25], [1 / 3, 2 / 3]], ["y", "n"])
    )
    assert table == (
        "id\tprediction\tprobability of y\tprobability of n\ttext_a\ttext_b\n"
        "0\ty\t0.750000\t0.250000\ta\tb\n"
        "1\tn\t0.333333\t0.666667\tc\t\n"
    )


def test_numbers_and_choices():
    table = predictions_table(prediction_rows([0, 1], [("q", "x", "y"), ("q", "z")], [2.5, 1e-9]))
    assert table == "id\tprediction\ttext_1\ttext_2\ttext_3\n0\t2.5\tq\tx\ty\n1\t1e-09\tq\tz\t\n"


def test_a_table_of_errors():
    table = errors_table(
        ["c", "a"], ["f line 4", "f line 2"], ["3", "1"], ["y", "x"], ["x", "y"], [0.75, 0.5], words=["+0.5 3", ""]
    )
    assert table == (
        "id\tsource\tlabel\tprediction\tconfidence\twords\ttext\n"
        "c\tf line 4\ty\tx\t0.750000\t+0.5 3\t3\na\tf line 2\tx\ty\t0.500000\t\t1\n"
    )
    table = errors_table([2, 0], ["z", "x"], [("a", "b")] * 2, [3.0, 1.0], [1.0, 1.5], [2.0, 0.5], "off by")
    assert table == (
        "id\tsource\tlabel\tprediction\toff by\ttext_a\ttext_b\n2\tz\t3\t1\t2\ta\tb\n0\tx\t1\t1.5\t0.5\ta\tb\n"
    )
    assert errors_table([], [], [], [], [], []) == "id\tsource\tlabel\tprediction\tconfidence\ttext\n"
