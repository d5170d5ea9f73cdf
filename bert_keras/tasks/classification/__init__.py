"""Classes, numbers, several labels or choices for texts: data, task, reports, label checks."""

from bert_keras.tasks.ability import LENGTH_OR_NULL, NAMES, SWITCH_OR_NULL, Ability

# Setting that classifiers of --calibrate also have: the lowest probability of a label in a label set, by the coverage.
LABEL_SETS = "label_set_thresholds"
_TEXT_SETTINGS = {"is_pair": SWITCH_OR_NULL, "doc_stride": LENGTH_OR_NULL}
_FIELDS = {"text": {"label": "Text", "rows": 3}, "text_pair": {"label": "Second text", "rows": 2}}

ABILITIES = {
    "classification": Ability(
        predictor="classification.predictor.TextClassifier",
        answer="classification.predictor.Classification",
        graph="classification.graph.ClassModel",
        head="classifier",
        route="classify",
        settings={"labels": NAMES, **_TEXT_SETTINGS},
        purpose="assigns {texts} to one of {num_labels} classes",
        other_paths={"/predict": "labels"},
        page={
            "title": "Classify a text",
            "purpose": "The model gives a probability to each class.",
            "button": "Classify",
            "fields": _FIELDS,
        },
    ),
    "regression": Ability(
        predictor="classification.predictor.TextClassifier",
        answer="classification.predictor.Regression",
        graph="classification.graph.ClassModel",
        head="classifier",
        route="classify",
        settings=_TEXT_SETTINGS,
        purpose="predicts a number for {texts}",
        page={
            "title": "Rate a text",
            "purpose": "The model predicts a number.",
            "button": "Rate",
            "fields": _FIELDS,
        },
    ),
    "multi_label": Ability(
        predictor="classification.predictor.TextClassifier",
        answer="classification.predictor.MultiLabel",
        graph="classification.graph.ClassModel",
        head="classifier",
        route="classify",
        settings={"labels": NAMES, **_TEXT_SETTINGS},
        purpose="predicts which of {num_labels} labels apply to {texts}",
        other_paths={"/predict": "labels"},
        page={
            "title": "Label a text",
            "purpose": "The model gives each label the probability that it applies.",
            "button": "Label",
            "fields": _FIELDS,
        },
    ),
}
