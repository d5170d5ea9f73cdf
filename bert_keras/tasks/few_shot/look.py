"""A look at the files of run_few_shot.py."""

from bert_keras.tasks.classification.look import look_at_own_files
from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.opening import open_settings, stored_task
from bert_keras.tasks.few_shot.settings import FewShotSettings, check_few_shot, classifier_settings


def look(settings: FewShotSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_few_shot.py; not `is_whole`: only for mistakes."""
    together = Findings()
    with together.catching():
        settings = open_settings(settings, "run_few_shot")
        settings.check_effects()
        check_few_shot(settings)
        stored = stored_task(settings, ("classification",))
        if settings.do_train and settings.class_names:
            stored = {"labels": list(settings.class_names)}
        if is_whole or settings.do_train or stored:
            return [*look_at_own_files(classifier_settings(settings), stored, together, is_whole), together]
    return [together]
