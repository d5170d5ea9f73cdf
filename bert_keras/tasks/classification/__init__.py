"""Classes, numbers, several labels or choices for texts: data, task, reports, label checks."""

from bert_keras.tasks.ability import LENGTH_OR_NULL, NAMES, SWITCH_OR_NULL, Ability

# Setting that classifiers of --calibrate also have: the lowest probability of a label in a label set, by the coverage.
LABEL_SETS = "label_set_thresholds"
_OF_TEXTS = {"is_pair": SWITCH_OR_NULL, "doc_stride": LENGTH_OR_NULL}

ABILITIES = {
    "classification": Ability(
        predictor="classification.predictor.TextClassifier",
        answer="classification.predictor.Classification",
        graph="classification.graph.ClassModel",
        head="classifier",
        route="classify",
        settings={"labels": NAMES, **_OF_TEXTS},
        purpose="assigns {texts} to one of {num_labels} classes",
        other_paths={"/predict": "labels"},
    ),
    "regression": Ability(
        predictor="classification.predictor.TextClassifier",
        answer="classification.predictor.Regression",
        graph="classification.graph.ClassModel",
        head="classifier",
        route="classify",
        settings=_OF_TEXTS,
        purpose="predicts a number for {texts}",
    ),
    "multi_label": Ability(
        predictor="classification.predictor.TextClassifier",
        answer="classification.predictor.MultiLabel",
        graph="classification.graph.ClassModel",
        head="classifier",
        route="classify",
        settings={"labels": NAMES, **_OF_TEXTS},
        purpose="predicts which of {num_labels} labels apply to {texts}",
        other_paths={"/predict": "labels"},
    ),
}
