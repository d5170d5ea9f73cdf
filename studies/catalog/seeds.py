"""The spread over seeds of fine-tuning on small data (section 4.1 of the paper: it is unstable there), for --model_dir.

The seed determines the weights of the head, the order of the examples and dropout.
"""

from studies.runner.study import Claim, Study, Variant

_PROBES = {"rte": "RTE", "mrpc": "MRPC", "cola": "CoLA"}


def _variant(num_train_epochs, **options):
    options = {"num_train": 1000, "num_train_epochs": num_train_epochs, **options}
    return Variant(probes=dict.fromkeys(_PROBES, options))


STUDY = Study(
    title="The spread over seeds",
    variants={
        "3 epochs": _variant(3),
        "3 epochs with bias correction": _variant(3, adam_bias_correction=True),
        "10 epochs": _variant(10),
    },
    probes=tuple(_PROBES),
    claims=tuple(
        Claim(f"{text} on {name}", source, better=better, worse="3 epochs", probe=probe)
        for text, source, better in (
            ("ten epochs are better than three", "Mosbach et al. 2021", "10 epochs"),
            ("Adam is better with its bias correction", "Zhang et al. 2021", "3 epochs with bias correction"),
        )
        for probe, name in _PROBES.items()
    ),
    num_seeds=20,
)
