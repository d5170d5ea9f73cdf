"""The studies, each in one file."""

from studies.catalog import (
    continued,
    electra,
    features,
    masking,
    masks,
    pretraining,
    seeds,
    size,
    spans,
    steps,
    tasks_of_pretraining,
)
from studies.runner.study import Study

STUDIES: dict[str, Study] = {
    "continued": continued.STUDY,
    "electra": electra.STUDY,
    "features": features.STUDY,
    "masking": masking.STUDY,
    "masks": masks.STUDY,
    "pretraining": pretraining.STUDY,
    "seeds": seeds.STUDY,
    "size": size.STUDY,
    "spans": spans.STUDY,
    "steps": steps.STUDY,
    "tasks_of_pretraining": tasks_of_pretraining.STUDY,
}
