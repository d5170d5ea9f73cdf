"""Pre-trained against random weights."""

from studies.runner.study import Claim, Study, Variant

_TASKS = {"ner": "CoNLL", "sst2": "SST-2", "mnli_small": "MNLI-small", "zorro": "Zorro"}
STUDY = Study(
    title="Pre-trained against random weights",
    variants={"pre-trained": Variant(), "random weights": Variant(is_trained=False)},
    probes=("bits_per_byte", "zorro", "blimp", "sst2", "cola", "mrpc", "stsb", "qnli", "mnli_small", "ner"),
    claims=tuple(
        Claim(
            f"pre-trained weights are better than random ones on {name}",
            "section 1",
            better="pre-trained",
            worse="random weights",
            probe=probe,
        )
        for probe, name in _TASKS.items()
    ),
)
