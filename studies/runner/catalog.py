"""The studies with published results; docs/explanation/studies.md has these."""

from typing import Any

from studies.runner.study import Claim, Study, Variant


def _features(*layers: int | str, combine: str = "concatenate") -> Variant:
    options = {"layers": "all" if layers == ("all",) else list(layers), "combine": combine}
    return Variant(probes={"ner_features": options})


def _fine_tuned(num_train_epochs: int, **options: Any) -> Variant:
    options = {"num_train": 1000, "num_train_epochs": num_train_epochs, **options}
    return Variant(probes={"mrpc": options})


def _claims(text: str, source: str, better: str, worse: str, **probes: str) -> tuple[Claim, ...]:
    """Returns a claim for each probe, whose name in words completes the text."""
    return tuple(Claim(f"{text} {name}", source, better, worse, probe) for probe, name in probes.items())


_STEP_PROBES = {"sst2": "SST-2", "ner": "CoNLL", "zorro": "Zorro", "blimp": "BLiMP"}
_LAST_FOUR = (-1, -2, -3, -4)
# A step of ELECTRA takes 1.33 times as long as one of masked LM: the median of 7 rounds of 20 steps of 64 full rows at
# --scale=night, in processor time. Its generator scores the whole vocabulary, too, and draws a number for each score.
_EQUAL = "ELECTRA for 0.75 of the steps"
_ELECTRA, _SPANS = {"objective": "electra"}, {"masked_spans": "geometric"}
# The same text is read many times.
_STEPS = {
    f"masked LM after {share:.0%} of the steps": Variant(
        records={"dynamic_masking": True, "dupe_factor": 1}, share=share, saved_share=0.01
    )
    for share in (0.01, 0.03, 0.1, 0.3, 1.0)
}
_FROM_30, _TO_ALL = list(_STEPS)[-2:]

STUDIES = {
    "electra": Study(
        # Without minimal pairs, because a discriminator gives no probabilities of tokens.
        title="Replaced tokens instead of masked ones (ELECTRA)",
        variants={
            "masked LM": Variant(),
            "ELECTRA": Variant(training=_ELECTRA),
            _EQUAL: Variant(training=_ELECTRA, num_steps_factor=0.75),
        },
        probes=("mnli_small", "sst2", "ner"),
        claims=(
            *_claims(
                "ELECTRA is better than masked LM in equal minutes on",
                "ELECTRA (Clark et al. 2020)",
                _EQUAL,
                "masked LM",
                mnli_small="MNLI-small",
                sst2="SST-2",
                ner="CoNLL",
            ),
            *_claims(
                "ELECTRA is better than masked LM after equal steps on",
                "ELECTRA (Clark et al. 2020)",
                "ELECTRA",
                "masked LM",
                mnli_small="MNLI-small",
            ),
        ),
    ),
    "features": Study(
        title="Features against fine-tuning (table 7)",
        variants={
            "fine-tuned": Variant(probes={"ner": {}}),
            "embeddings": _features("embeddings"),
            "second to last layer": _features(-2),
            "last layer": _features(-1),
            "weighted sum of the last four": _features(*_LAST_FOUR, combine="weighted_sum"),
            "last four concatenated": _features(*_LAST_FOUR),
            "weighted sum of all layers": _features("all", combine="weighted_sum"),
        },
        probes=("ner", "ner_features"),
        claims=(
            Claim(
                "a layer of the encoder is better than the embeddings",
                "section 5.3, table 7",
                "last four concatenated",
                "embeddings",
                "ner_features",
            ),
            Claim(
                "several layers, concatenated, are better than the last",
                "section 5.3, table 7",
                "last four concatenated",
                "last layer",
                "ner_features",
            ),
            Claim(
                "fine-tuning is better than features",
                "section 5.3, table 7",
                "fine-tuned",
                "last four concatenated",
                "ner_features",
                better_probe="ner",
            ),
        ),
        has_one_model=True,
    ),
    "pretraining": Study(
        title="Pre-trained against random weights",
        variants={"pre-trained": Variant(), "random weights": Variant(is_trained=False)},
        probes=("bits_per_byte", "zorro", "blimp", "sst2", "cola", "mrpc", "stsb", "qnli", "mnli_small", "ner"),
        claims=_claims(
            "pre-trained weights are better than random ones on",
            "section 1",
            "pre-trained",
            "random weights",
            ner="CoNLL",
            sst2="SST-2",
            mnli_small="MNLI-small",
            zorro="Zorro",
        ),
    ),
    "seeds": Study(
        # The seed determines the weights of the head, the order of the examples and dropout.
        title="The spread over seeds",
        variants={
            "3 epochs": _fine_tuned(3),
            "3 epochs with bias correction": _fine_tuned(3, adam_bias_correction=True),
            "10 epochs": _fine_tuned(10),
        },
        probes=("mrpc",),
        claims=(
            Claim("ten epochs are better than three", "Mosbach et al. 2021", "10 epochs", "3 epochs", "mrpc"),
            Claim(
                "Adam is better with its bias correction",
                "Zhang et al. 2021",
                "3 epochs with bias correction",
                "3 epochs",
                "mrpc",
            ),
        ),
        num_seeds=20,
        has_one_model=True,
    ),
    "spans": Study(
        title="Masked spans and their boundaries (SpanBERT)",
        variants={
            "single tokens": Variant(),
            "whole words": Variant(records={"do_whole_word_mask": True}),
            "spans": Variant(records=_SPANS),
            "spans and their boundaries": Variant(records=_SPANS, training={"objective": "span_boundary"}),
        },
        probes=("squad", "ner"),
        claims=(
            Claim("spans are better than single tokens", "SpanBERT, masks", "spans", "single tokens", "squad"),
            Claim("spans are better than whole words", "SpanBERT, masks", "spans", "whole words", "squad"),
            *_claims(
                "the boundary objective helps to find",
                "SpanBERT, comparison of objectives",
                "spans and their boundaries",
                "spans",
                squad="answers",
            ),
            *_claims(
                "the boundary objective helps to find", "ours", "spans and their boundaries", "spans", ner="names"
            ),
        ),
        num_seeds=5,
    ),
    "steps": Study(
        title="The number of steps (figure 5)",
        variants={"random weights": Variant(is_trained=False), **_STEPS},
        probes=("bits_per_byte", "zorro", "blimp", "sst2", "ner"),
        claims=(
            *_claims(
                "all steps are better than 30 % of them on", "appendix C.1, figure 5", _TO_ALL, _FROM_30, **_STEP_PROBES
            ),
            *_claims(
                "pre-trained weights are better than random ones on",
                "section 1",
                _TO_ALL,
                "random weights",
                **_STEP_PROBES,
            ),
        ),
    ),
}
