"""The studies, each in one file."""

from bert_keras.studies.catalog import (
    features,
    masking,
    masks,
    pretraining,
    sentence_tasks,
    size,
    steps,
    tasks_of_pretraining,
)
from bert_keras.studies.runner.study import Study

STUDIES: dict[str, Study] = {
    "features": features.STUDY,
    "masking": masking.STUDY,
    "masks": masks.STUDY,
    "pretraining": pretraining.STUDY,
    "sentence_tasks": sentence_tasks.STUDY,
    "size": size.STUDY,
    "steps": steps.STUDY,
    "tasks_of_pretraining": tasks_of_pretraining.STUDY,
}
