"""Pre-trained weights against random ones, and more steps of pre-training."""

from studies.runner.study import Claim, Study, Variant

_LONG = "pre-trained for 10 times as many steps"
_TASKS = {"ner": "CoNLL", "sst2": "SST-2", "mnli_small": "MNLI-small", "zorro": "Zorro"}


def _claims(text, source, better, worse, tasks):
    return [Claim(f"{text} on {name}", source, better, worse, probe) for probe, name in tasks.items()]


STUDY = Study(
    title="Pre-trained against random weights",
    variants={
        _LONG: Variant(num_steps_factor=10.0),
        "pre-trained": Variant(),
        "random weights": Variant(is_trained=False),
    },
    probes=("bits_per_byte", "zorro", "blimp", "sst2", "cola", "mrpc", "stsb", "qnli", "mnli_small", "ner"),
    claims=(
        *_claims(
            "pre-trained weights are better than random ones", "section 1", "pre-trained", "random weights", _TASKS
        ),
        *_claims("ten times as many steps are better", "ours", _LONG, "pre-trained", _TASKS | {"blimp": "BLiMP"}),
    ),
)
