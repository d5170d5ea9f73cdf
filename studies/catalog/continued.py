"""Ours: more pre-training on the texts of a task, against as much on the general text."""

from studies.runner.study import Claim, Study, Variant

_GENERAL = "a quarter more on the general text"
_TASKS = {"sst2": "SST-2", "mnli_small": "MNLI-small"}


def _on(name):
    return f"a quarter more on the texts of {name}"


STUDY = Study(
    title="More pre-training on the texts of a task (ours)",
    variants={
        _GENERAL: Variant(more_text="corpus"),
        **{_on(name): Variant(more_text=probe, probes={probe: {}}) for probe, name in _TASKS.items()},
    },
    probes=tuple(_TASKS),
    claims=tuple(
        Claim(
            f"the texts of {name} help more than general text",
            "Gururangan et al. 2020",
            better=_on(name),
            worse=_GENERAL,
            probe=probe,
        )
        for probe, name in _TASKS.items()
    ),
    num_seeds=5,
)
