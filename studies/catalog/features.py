"""Features of a model that does not change, against fine-tuning, on CoNLL-2003 (table 7 of the paper).

The paper has LSTMs on the features; here they have a linear classifier. The model is pre-trained here, or --model_dir.
"""

from bert_keras.studies.runner.study import Claim, Study, Variant


def _features(*layers, combine="concatenate"):
    return Variant(probes={"ner_features": {"layers": list(layers), "combine": combine}})


_SOURCE = "section 5.3, table 7"
_LAST_FOUR = (-1, -2, -3, -4)
STUDY = Study(
    title="Features against fine-tuning (table 7)",
    variants={
        "fine-tuned": Variant(probes={"ner": {}}),
        "embeddings": _features("embeddings"),
        "second to last layer": _features(-2),
        "last layer": _features(-1),
        "last four layers summed": _features(*_LAST_FOUR, combine="sum"),
        "last four layers concatenated": _features(*_LAST_FOUR),
        "all layers summed": Variant(probes={"ner_features": {"layers": "all", "combine": "sum"}}),
    },
    probes=("ner", "ner_features"),
    claims=(
        Claim(
            "a layer of the encoder is better than the embeddings",
            _SOURCE,
            better="last four layers concatenated",
            worse="embeddings",
            probe="ner_features",
        ),
        Claim(
            "several layers concatenated, are better than the last",
            _SOURCE,
            better="last four layers concatenated",
            worse="last layer",
            probe="ner_features",
        ),
        Claim(
            "fine-tuning is better than features",
            _SOURCE,
            better="fine-tuned",
            better_probe="ner",
            worse="last four layers concatenated",
            probe="ner_features",
        ),
    ),
    config={"num_hidden_layers": 4},
)
