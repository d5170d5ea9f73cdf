"""Classification metrics against numbers computed by hand."""

import math

import numpy as np
import pytest

from bert_keras.evaluation.classification import (
    class_report,
    classification_metrics,
    confusion_matrix_table,
    multi_label_metrics,
    regression_metrics,
)

# Two classes: for class 1, 3 true positives, 1 false positive, 2 false negatives; 4 correct of class 0.
TRUTH = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]
FOUND = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_two_classes():
    scores = classification_metrics(TRUTH, FOUND, ["matthews", "accuracy", "f1", "f1_macro"])
    assert list(scores) == ["matthews", "accuracy", "f1", "f1_macro"]
    assert scores == pytest.approx(
        {
            "matthews": (3 * 4 - 1 * 2) / math.sqrt(4 * 5 * 5 * 6),
            "accuracy": 0.7,
            "f1": 2 * 3 / (2 * 3 + 1 + 2),
            "f1_macro": (6 / 9 + 8 / 11) / 2,
        }
    )
    assert all(type(value) is float for value in scores.values())


@pytest.mark.parametrize(
    ("truth", "found", "expected"),
    [
        # f1 is that of class 1.
        ([0, 0, 1], [0, 0, 0], {"f1": 0}),
        ([1, 1, 0], [1, 1, 1], {"f1": 0.8}),
        # The Matthews correlation of one class is 0.
        *((truth, found, {"matthews": 0}) for truth, found in (([1, 1], [0, 1]), ([0, 1], [1, 1]), ([2], [2]))),
        # Class 1 has no example here and class 4 no prediction; classes 2 and 3 have neither.
        ([0, 0, 4], [0, 1, 0], {"f1_macro": (0.5 + 0 + 0) / 3, "accuracy": 1 / 3}),
    ],
)
def test_single_classes(truth, found, expected):
    assert classification_metrics(truth, found, list(expected)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("truth", "found", "names", "message"),
    [
        ([], [], ["accuracy"], "^0 examples were given; give at least one with its label$"),
        ([0, 1], [0], ["accuracy"], "^there are 2 labels, but 1 predictions; give one for each$"),
        ([0], [0], ["auc"], '^"auc" is not a classification metric; choose from "accuracy", "f1", "f1_macro", "matt'),
        ([0], [2], ["f1"], "^f1 is for classes 0 and 1, but there is a class 2; use f1_macro for more classes$"),
    ],
)
def test_mistakes(truth, found, names, message):
    with pytest.raises(ValueError, match=message):
        classification_metrics(truth, found, names)


def test_names_may_be_a_generator():
    assert classification_metrics([0, 1], [0, 0], (name for name in ["f1", "accuracy"])) == {"f1": 0, "accuracy": 0.5}


def test_correlations():
    # Deviations from the means: -1.5 -0.5 0.5 1.5 and -1 -1 2 0.
    scores = regression_metrics([1, 2, 3, 4], [1, 1, 4, 2])
    ranks = np.array([-1, -1, 1.5, 0.5])
    assert scores == pytest.approx(
        {
            "pearson": (1.5 + 0.5 + 1 + 0) / math.sqrt(5 * 6),
            "spearman": (ranks @ [-1.5, -0.5, 0.5, 1.5]) / math.sqrt(5 * (ranks @ ranks)),
            "mae": (0 + 1 + 1 + 2) / 4,
            "rmse": math.sqrt((0 + 1 + 1 + 4) / 4),
        }
    )
    assert regression_metrics([1, 2, 3], [9, 4, 1])["spearman"] == pytest.approx(-1)


@pytest.mark.parametrize(("truth", "found"), [([1, 2, 3], [2, 2, 2]), ([1, 1], [2, 3]), ([1], [2])])
def test_equal_numbers_have_correlation_0(truth, found):
    assert regression_metrics(truth, found) | {"mae": 1, "rmse": 1} == {
        "pearson": 0,
        "spearman": 0,
        "mae": 1,
        "rmse": 1,
    }


def test_predictions_that_hardly_differ_have_a_correlation():
    scores = regression_metrics([1, 2, 3], 1 + np.array([0, 1, 2]) * 2.0**-52)
    assert scores["spearman"] == pytest.approx(1)
    assert not math.isnan(scores["pearson"])


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_that_are_not_finite(value):
    with pytest.raises(ValueError, match=f"^prediction 2 of 3 is {value}, but numbers have to be finite$"):
        regression_metrics([1, 2, 3], [1, value, 3])
    with pytest.raises(ValueError, match=f"^label 1 of 2 is {value}"):
        regression_metrics([value, 3], [1, 2])


def test_several_labels():
    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]])
    found = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 1]])
    # Label 0: 1 of 2 correct; label 1: 2 of 2 correct; label 2: 2 wrong ones.
    expected = {"f1_micro": 2 * 3 / (4 + 5), "f1_macro": (2 / 3 + 1 + 0) / 3, "accuracy": 0.5}
    assert multi_label_metrics(truth, found) == pytest.approx(expected)
    assert multi_label_metrics(truth.astype(bool), found.astype(float)) == pytest.approx(expected)


def test_one_label_of_several():
    scores = multi_label_metrics([[1], [1], [0], [0]], [[1], [0], [1], [0]])
    assert scores == {"f1_micro": 0.5, "f1_macro": 0.5, "accuracy": 0.5}
    assert class_report([[1], [1], [0], [0]], [[1], [0], [1], [0]], ["new"]).splitlines()[1].split() == (
        ["new", "0.5000", "0.5000", "0.5000", "2"]
    )


def test_labels_that_are_neither_0_nor_1():
    with pytest.raises(ValueError, match="^predictions must be 0 or 1, with a row for each example"):
        multi_label_metrics([[1, 0]], [[0.7, 0.2]])
    with pytest.raises(ValueError, match="^there are 1 x 2 labels, but 1 x 3 predictions; give one for each$"):
        multi_label_metrics([[1, 0]], [[1, 0, 1]])


def test_the_report_of_classes():
    truth, found = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 0, 0]
    assert class_report(truth, found, ["sport", "politics", "tech", "never"]) == (
        "          precision  recall      f1  examples\n"
        "sport        0.5000  0.6667  0.5714         3\n"
        "politics     0.5000  0.5000  0.5000         2\n"
        "tech         0.0000  0.0000  0.0000         1\n"
        "never        0.0000  0.0000  0.0000         0\n"
        "\n"
        "macro        0.3333  0.3889  0.3571         6\n"
        "weighted     0.4167  0.5000  0.4524         6\n"
    )
    macro = classification_metrics(truth, found, ["f1_macro"])["f1_macro"]
    assert f"{macro:.4f}" == "0.3571"


def test_the_report_of_several_labels():
    report = class_report([[1, 0], [1, 1], [0, 0]], [[1, 1], [0, 1], [0, 0]], ["a", "b"])
    assert [line.split() for line in report.splitlines()[1:]] == [
        ["a", "1.0000", "0.5000", "0.6667", "2"],
        ["b", "0.5000", "1.0000", "0.6667", "1"],
        [],
        ["macro", "0.7500", "0.7500", "0.6667", "3"],
        ["weighted", "0.8333", "0.6667", "0.6667", "3"],
    ]
    nothing = class_report([[0, 0]], [[0, 0]], ["a", "b"])
    assert nothing.splitlines()[-1].split() == ["weighted", "0.0000", "0.0000", "0.0000", "0"]


def test_the_confusion_matrix():
    truth, found = [0, 0, 0, 1, 1], [0, 0, 1, 1, 0]
    assert confusion_matrix_table(truth, found, ["no", "tab\there", "c"]) == (
        "label, prediction:\tno\ttab\\there\tc\nno\t2\t1\t0\ntab\\there\t1\t1\t0\nc\t0\t0\t0\n"
    )


@pytest.mark.parametrize("function", [class_report, confusion_matrix_table])
def test_every_class_needs_a_name(function):
    with pytest.raises(ValueError, match="^there is a prediction 2, but 2 classes have names; name every class$"):
        function([0, 1], [0, 2], ["a", "b"])
    with pytest.raises(ValueError, match="^there is a label -1, but 2 classes have names"):
        function([0, -1], [0, 1], ["a", "b"])


def test_every_label_needs_a_name():
    with pytest.raises(ValueError, match="^there are 2 columns of labels, but 3 names; give one for each$"):
        class_report([[0, 1]], [[0, 1]], ["a", "b", "c"])


@pytest.mark.parametrize("truth", [[0, 0, 2], [[1, 0, 0], [0, 0, 0], [0, 0, 1]]])
def test_a_report_has_a_line_for_each_label_and_whole_numbers_of_examples(truth):
    report = class_report(truth, truth, ["one\ntwo", "never", "tab\there"]).splitlines()
    assert len(report) == 1 + 3 + 1 + 2
    assert [line.split()[0] for line in report[1:4]] == ["one\\ntwo", "never", "tab\\there"]
    assert all(line.split()[-1].isdecimal() for line in report[1:] if line)
