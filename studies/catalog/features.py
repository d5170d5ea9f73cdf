"""Features of a model that does not change, against fine-tuning, on CoNLL-2003 (table 7 of the paper).

The paper has LSTMs on the features. Here one row has them, and the others have a linear classifier, which shows more
directly what a layer contains. The model is pre-trained here, or --model_dir.
"""

from studies.runner.study import Claim, Study, Variant


def _features(*layers, combine="concatenate", paper):
    options = {"layers": "all" if layers == ("all",) else list(layers), "combine": combine}
    return Variant(probes={"ner_features": options}, paper={"NER": paper})


_SOURCE = "section 5.3, table 7"
_LAST_FOUR = (-1, -2, -3, -4)
STUDY = Study(
    title="Features against fine-tuning (table 7)",
    variants={
        "fine-tuned": Variant(probes={"ner": {}}, paper={"NER": 96.4}),
        "embeddings": _features("embeddings", paper=91.0),
        "second to last layer": _features(-2, paper=95.6),
        "last layer": _features(-1, paper=94.9),
        "weighted sum of the last four": _features(*_LAST_FOUR, combine="weighted_sum", paper=95.9),
        "last four concatenated": _features(*_LAST_FOUR, paper=96.1),
        "last four concatenated with LSTMs": Variant(
            # On a CPU, a step of LSTMs takes 1.5 times as long for 128 sentences as for 32.
            probes={"ner": {"tagger": "bilstm", "learning_rate": 1e-3, "train_batch_size": 128}},
            paper={"NER": 96.1},
        ),
        "weighted sum of all layers": _features("all", combine="weighted_sum", paper=95.5),
    },
    probes=("ner", "ner_features"),
    claims=(
        Claim(
            "a layer of the encoder is better than the embeddings",
            _SOURCE,
            better="last four concatenated",
            worse="embeddings",
            probe="ner_features",
        ),
        Claim(
            "several layers, concatenated, are better than the last",
            _SOURCE,
            better="last four concatenated",
            worse="last layer",
            probe="ner_features",
        ),
        Claim(
            "features with LSTMs come close to fine-tuning: they lose less than 1 point",
            _SOURCE,
            better="last four concatenated with LSTMs",
            worse="fine-tuned",
            probe="ner",
            margin=0.01,
        ),
        Claim(
            "fine-tuning is better than features",
            _SOURCE,
            better="fine-tuned",
            better_probe="ner",
            worse="last four concatenated",
            probe="ner_features",
        ),
    ),
    config={"num_hidden_layers": 4},
)
