"""The steps from single masked tokens to SpanBERT, at the size of the other studies."""

from studies.runner.study import Claim, Study, Variant

_SPANS = {"masked_spans": "geometric"}
_BOUNDARIES = "spans and their boundaries"

STUDY = Study(
    title="Masked spans and their boundaries (SpanBERT)",
    variants={
        "single tokens": Variant(),
        "whole words": Variant(records={"do_whole_word_mask": True}),
        "spans": Variant(records=_SPANS),
        _BOUNDARIES: Variant(records=_SPANS, training={"objective": "span_boundary"}),
    },
    probes=("squad", "ner"),
    claims=tuple(
        Claim(f"{better} are better than {worse}", "SpanBERT, masks", better, worse, "squad")
        for better, worse in (("spans", "single tokens"), ("spans", "whole words"))
    )
    + tuple(
        Claim(f"the boundary objective helps to find {what}", source, _BOUNDARIES, "spans", probe)
        for what, source, probe in (
            ("answers", "SpanBERT, comparison of objectives", "squad"),
            ("names", "ours", "ner"),
        )
    ),
    num_seeds=5,
)
