"""Masked, kept and random tokens for the masked LM (table 8 of the paper)."""

from studies.runner.study import Claim, Study, Variant


def _variant(replace_prob, keep_prob, *paper):
    columns = ("MNLI", "NER, fine-tuned", "NER, features")
    return Variant(
        records={"replace_prob": replace_prob, "keep_prob": keep_prob}, paper=dict(zip(columns, paper, strict=True))
    )


_SOURCE = "appendix C.2, table 8"
STUDY = Study(
    title="Masked, kept and random tokens (table 8)",
    variants={
        "80 mask 10 same 10 random": _variant(0.8, 0.1, 84.2, 95.4, 94.9),
        "100 mask": _variant(1.0, 0.0, 84.3, 94.9, 94.0),
        "80 mask 20 random": _variant(0.8, 0.0, 84.1, 95.2, 94.6),
        "80 mask 20 same": _variant(0.8, 0.2, 84.4, 95.2, 94.7),
        "20 same 80 random": _variant(0.0, 0.2, 83.7, 94.8, 94.6),
        "100 random": _variant(0.0, 0.0, 83.6, 94.9, 94.6),
    },
    probes=("bits_per_byte", "zorro", "ner_features", "ner"),
    claims=(
        Claim(
            "80/10/10 is better than only random tokens, with features",
            _SOURCE,
            better="80 mask 10 same 10 random",
            worse="100 random",
            probe="ner_features",
        ),
        Claim(
            "80/10/10 is better than only [MASK], with features",
            _SOURCE,
            better="80 mask 10 same 10 random",
            worse="100 mask",
            probe="ner_features",
        ),
        Claim(
            "fine-tuning depends little on the shares: only [MASK] loses less than 1 point",
            _SOURCE,
            better="100 mask",
            worse="80 mask 10 same 10 random",
            probe="ner",
            margin=0.01,
        ),
    ),
    num_seeds=5,
)
