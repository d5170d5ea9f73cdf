"""The steps from single masked tokens to SpanBERT, at the size of the other studies."""

from studies.runner.study import Claim, Study, Variant

_SPANS = {"masked_spans": "geometric"}

STUDY = Study(
    title="Masked spans and their boundaries (SpanBERT)",
    variants={
        "single tokens": Variant(),
        "whole words": Variant(records={"do_whole_word_mask": True}),
        "spans": Variant(records=_SPANS),
        "spans and their boundaries": Variant(records=_SPANS, training={"objective": "span_boundary"}),
    },
    probes=("squad", "ner"),
    claims=(
        Claim(
            "spans are better than single tokens",
            "SpanBERT, comparison of masks",
            better="spans",
            worse="single tokens",
            probe="squad",
        ),
        Claim(
            "spans are better than whole words",
            "SpanBERT, comparison of masks",
            better="spans",
            worse="whole words",
            probe="squad",
        ),
        Claim(
            "the boundary objective helps to find answers",
            "SpanBERT, comparison of objectives",
            better="spans and their boundaries",
            worse="spans",
            probe="squad",
        ),
        Claim(
            "the boundary objective helps to find names",
            "ours",
            better="spans and their boundaries",
            worse="spans",
            probe="ner",
        ),
    ),
    num_seeds=5,
)
