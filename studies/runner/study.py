"""The parts of a study, which `catalog` declares, and the sizes at which it runs."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Variant:
    """One row of the table of a study: how its model differs from the study's base.

    Attributes:
        records: changes of the `PretrainingDataSettings`.
        training: changes of the flags of run_pretraining.py.
        num_steps_factor: multiplies the number of steps.
        is_trained: False: the weights stay random.
        probes: options of the probes by name, such as the layers of "ner_features"; they replace those of the scale.
            None: all probes of the study.
        share: the probes take the checkpoint after this share of the training steps. Variants that differ only in this
            share one training run.
        saved_share: a checkpoint is saved after each such share of the steps; `share` is a multiple of it.
    """

    records: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    num_steps_factor: float = 1.0
    is_trained: bool = True
    probes: Mapping[str, Mapping[str, Any]] | None = None
    share: float = 1.0
    saved_share: float = 0.25


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim: the variant `better` is better than `worse` on a probe.

    Attributes:
        text: the claim in words.
        source: where the paper makes it; "ours" if it does not.
        better_probe: the probe of `better` if it differs from that of `worse`.
    """

    text: str
    source: str
    better: str
    worse: str
    probe: str
    better_probe: str | None = None


@dataclasses.dataclass(frozen=True)
class Study:
    """A study.

    Attributes:
        title: with the place in the paper.
        variants: by name, in the order of the rows.
        probes: names of the columns; see `probes.PROBES`.
        num_seeds: number of seeds of --scale=night and --scale=full.
        has_one_model: all variants probe one model, --model_dir; if not, each is pre-trained.
    """

    title: str
    variants: Mapping[str, Variant]
    probes: tuple[str, ...]
    claims: tuple[Claim, ...]
    num_seeds: int = 3
    has_one_model: bool = False


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size of an experiment.

    Attributes:
        most_documents: number of documents of the corpus; None: all.
        vocab_size: number of word pieces to learn.
        config: the BertConfig without its vocabulary.
        records, training: as in `Variant`: the base of a study.
        probes: options of the probes by name.
        num_seeds: maximum number of seeds; None: that of the study.
    """

    most_documents: int | None
    vocab_size: int
    config: Mapping[str, Any]
    records: Mapping[str, Any]
    training: Mapping[str, Any]
    probes: Mapping[str, Mapping[str, Any]]
    num_seeds: int | None = None


def shape(num_layers: int, hidden_size: int) -> dict[str, Any]:
    """Returns the sizes of a miniature in a BertConfig: heads of 64 columns, or two if it is narrower.

    With the released models' dropout of 0.1 and initial weights of 0.02, models of this width need three times as many
    steps to learn more than the frequencies of words; docs/explanation/results.md has the measurements.
    """
    return {
        "hidden_size": hidden_size,
        "num_hidden_layers": num_layers,
        "num_attention_heads": max(2, hidden_size // 64),
        "intermediate_size": 4 * hidden_size,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": round(0.68 / hidden_size**0.5, 3),
    }


_FINE_TUNING = {"learning_rate": 3e-4, "train_batch_size": 32, "max_seq_length": 64}
_WINDOWS = {"learning_rate": 3e-4, "train_batch_size": 32, "max_query_length": 24, "doc_stride": 64}

SCALES = {
    "smoke": Scale(
        most_documents=400,
        vocab_size=2000,
        config={**shape(2, 64), "max_position_embeddings": 64},
        records={"max_seq_length": 32, "max_predictions_per_seq": 5, "dupe_factor": 1, "sentence_task": "none"},
        training={"num_train_steps": 300, "train_batch_size": 32, "num_warmup_steps": 30, "learning_rate": 1e-3},
        probes={
            "bits_per_byte": {"num_sentences": 100},
            "blimp": {"num_pairs": 5},
            "zorro": {"num_pairs": 10},
            "ner": {"num_train": 300, "num_test": 200, "num_train_epochs": 1, **_FINE_TUNING},
            "ner_features": {"num_train": 500, "num_test": 200, "layers": [-1]},
            **{
                name: {"num_train": 500, "num_test": 200, "num_train_epochs": 1, **_FINE_TUNING}
                for name in ("sst2", "mrpc", "mnli_small", "cola", "stsb", "qnli")
            },
            "squad": {"num_train": 200, "num_test": 50, "num_train_epochs": 1, **_WINDOWS, "max_seq_length": 64},
        },
        num_seeds=1,
    ),
    "night": Scale(
        most_documents=None,
        vocab_size=8000,
        config={**shape(2, 128), "max_position_embeddings": 128},
        records={"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 2, "sentence_task": "none"},
        training={
            "num_train_steps": 3000,
            "train_batch_size": 64,
            "num_warmup_steps": 200,
            "learning_rate": 1e-3,
            "pack": True,
        },
        probes={
            "bits_per_byte": {"num_sentences": 1000},
            "blimp": {"num_pairs": 200},
            "zorro": {"num_pairs": 400},
            "ner": {"num_train": 4000, "num_test": None, "num_train_epochs": 3, **_FINE_TUNING},
            "ner_features": {"num_train": 4000, "num_test": None, "layers": [-1]},
            "sst2": {"num_train": 10_000, "num_test": None, "num_train_epochs": 2, **_FINE_TUNING},
            **{
                name: {"num_train": None, "num_test": None, "num_train_epochs": 3, **_FINE_TUNING}
                for name in ("mrpc", "mnli_small", "cola", "stsb", "qnli")
            },
            "squad": {"num_train": None, "num_test": None, "num_train_epochs": 5, **_WINDOWS, "max_seq_length": 128},
        },
    ),
}
_NIGHT = SCALES["night"]
# The shape of BERT-Mini, with a vocabulary that keeps its weights below 10 MB in float16.
SCALES["mini"] = dataclasses.replace(
    _NIGHT,
    vocab_size=6000,
    config={**shape(4, 256), "max_position_embeddings": 128},
    records={**_NIGHT.records, "max_seq_length": 128, "max_predictions_per_seq": 20, "dupe_factor": 10},
    training={**_NIGHT.training, "num_train_steps": 8000, "num_warmup_steps": 400, "precision": "bfloat16"},
    # At the rate of the narrower models, random weights of this shape do not learn SST-2.
    probes={
        name: {**options, "learning_rate": 1e-4} if "learning_rate" in options else options
        for name, options in _NIGHT.probes.items()
    },
    num_seeds=1,
)
# For a model that was trained elsewhere: all data, and a learning rate of the paper.
_FULL = {
    "num_train": None,
    "num_test": None,
    "num_train_epochs": 3,
    "learning_rate": 5e-5,
    "train_batch_size": 32,
    "max_seq_length": 128,
    "precision": "bfloat16",
}
SCALES["full"] = dataclasses.replace(
    _NIGHT,
    probes={
        **_NIGHT.probes,
        **dict.fromkeys(("ner", "mrpc"), _FULL),  # of the studies that take such a model
        "ner_features": {"num_train": None, "num_test": None, "layers": [-1]},
    },
)
