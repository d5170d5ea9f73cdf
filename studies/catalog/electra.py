"""ELECTRA against masked LM, at equal steps and at equal minutes; minimal pairs are missing, because a discriminator
gives no probabilities of tokens.
"""

from studies.runner.study import Claim, Study, Variant

# A step of ELECTRA takes 1.33 times as long as one of masked LM: the median of 7 rounds of 20 steps of 64 full rows at
# --scale=night, in processor time. Its generator scores the whole vocabulary, too, and draws a number for each score.
_FACTOR = 0.75
_EQUAL = f"ELECTRA for {_FACTOR} of the steps"
_SOURCE = "ELECTRA (Clark et al. 2020)"
_TASKS = {"mnli_small": "MNLI-small", "sst2": "SST-2", "ner": "CoNLL"}
_ELECTRA = {"objective": "electra"}

STUDY = Study(
    title="Replaced tokens instead of masked ones (ELECTRA)",
    variants={
        "masked LM": Variant(),
        "ELECTRA": Variant(training=_ELECTRA),
        _EQUAL: Variant(training=_ELECTRA, num_steps_factor=_FACTOR),
    },
    probes=tuple(_TASKS),
    claims=(
        *(
            Claim(
                f"ELECTRA is better than masked LM in equal minutes on {name}",
                _SOURCE,
                better=_EQUAL,
                worse="masked LM",
                probe=probe,
            )
            for probe, name in _TASKS.items()
        ),
        Claim(
            "ELECTRA is better than masked LM after equal steps on MNLI-small",
            _SOURCE,
            better="ELECTRA",
            worse="masked LM",
            probe="mnli_small",
        ),
    ),
)
