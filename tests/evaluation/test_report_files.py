"""Tables, and the reports of a run about its predictions."""

import io
import struct

import matplotlib.image
import numpy as np
import pytest

from bert_keras.evaluation.report_files import confusion_picture, errors_table, prediction_rows, predictions_table
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


def pixels(picture):
    return matplotlib.image.imread(io.BytesIO(picture), format="png")[..., :3]


@pytest.mark.parametrize("num_classes", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_the_picture_shades_confusions(real_pictures, num_classes):
    labels = [f"class ${number}" for number in range(num_classes)]
    right = confusion_picture(range(num_classes), range(num_classes), labels)
    wrong = confusion_picture(range(num_classes), [0] * num_classes, labels)
    assert right.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", right[16:24])
    assert 300 < height < width < 2600
    # The darkest blue of the colours; ignores the scale at the right.
    is_dark = [
        abs(pixels(picture)[:, : width // 2] - (8 / 255, 48 / 255, 107 / 255)).sum(axis=2) < 0.02
        for picture in (right, wrong)
    ]
    rows, columns = is_dark[1].nonzero()
    side = np.ptp(rows) / num_classes
    assert np.ptp(columns) == pytest.approx(side, abs=6), "one column of squares"
    rows_of_first, _ = is_dark[0][:, columns.min() : columns.max()].nonzero()
    assert np.ptp(rows_of_first) == pytest.approx(side, abs=6), "one square in it"
    assert rows_of_first.min() == pytest.approx(rows.min(), abs=1)


def test_the_same_numbers_give_the_same_picture(real_pictures):
    assert confusion_picture([0, 1], [0, 1], ["a", "b"]) == confusion_picture([0, 1], [0, 1], ["a", "b"])


def test_labels_that_the_font_of_the_picture_lacks(real_pictures, messages):
    # A missing character would be a warning of matplotlib, which fails the test, and a box in the picture.
    picture = confusion_picture([0, 1, 2], [0, 1, 2], ["\u4e2d\u6587", "a\nb", "na\u00efve \u0416"])
    [message] = messages
    assert message.startswith(
        "confusion_matrix.png: 2 of 3 labels are shortened, or have codes for characters that its"
    )
    assert picture == confusion_picture([0, 1, 2], [0, 1, 2], [r"\u4e2d\u6587", r"a\nb", "na\u00efve \u0416"])
