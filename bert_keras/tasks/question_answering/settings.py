"""The settings of question answering."""

import dataclasses

from bert_keras.mistakes import Mistake, Setting
from bert_keras.settings.fields import free, setting
from bert_keras.settings.groups import HeldOutSettings, TeacherSettings
from bert_keras.tasks.question_answering.metrics import LANGUAGES
from bert_keras.tasks.question_answering.squad_answers import ANSWER_TEXTS


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings(TeacherSettings, HeldOutSettings):
    """The settings of run_squad.py."""

    title = "Data and answers"
    usage = """
    Trains a model that finds answers to questions in texts (SQuAD 1.1 and 2.0), evaluates it and predicts.

        python run_squad.py --do_train --do_predict --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
            --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=squad_model

    For SQuAD 2.0, where a text may not contain the answer, give --version_2_with_negative. To resume an interrupted
    run, run the same command again. Without --do_train, the program uses the model in --output_dir. The flags of the
    original BERT keep their names, defaults and meaning.
    """

    train_file: str | None = free("Questions to train on, in SQuAD's JSON format.", None)
    eval_file: str | None = free("Questions with answers to evaluate on.", None)
    predict_file: str | None = free(
        "Questions to answer. Without {eval_file}, the program also evaluates on them if all have answers.", None
    )
    max_seq_length: int = setting("Maximum number of tokens in a sequence, with [CLS] and [SEP].", 384, lower_bound=4)
    doc_stride: int = setting(
        "Number of tokens from the start of a window to the start of the next.", 128, lower_bound=1
    )
    max_query_length: int = setting("Maximum tokens of a question; the rest is cut off.", 64, lower_bound=1)
    n_best_size: int = free(
        "Number of answers to write for each question, and of starts and ends to consider in each window.",
        20,
        lower_bound=1,
    )
    max_answer_length: int = free("Maximum number of tokens in an answer.", 30, lower_bound=1)
    answer_language: str | None = free(
        "Compare answers by the rules of MLQA for this language. If not given: by the rules of SQuAD.",
        None,
        choices=LANGUAGES,
    )
    verbose_logging: bool = free("Log each answer whose text is not found in its words.", False)
    version_2_with_negative: bool = setting("The data is SQuAD 2.0: a text may not contain the answer.", False)
    null_score_diff_threshold: float = free(
        "SQuAD 2.0: odds of no answer above which the answer is empty. If not given, prediction uses the threshold "
        "that the evaluation found.",
        0.0,
        needs={"version_2_with_negative": True},
    )
    answer_text: str = free(
        "Text of an answer: release, as in the original BERT, or offsets, the exact characters of the context.",
        "release",
        choices=ANSWER_TEXTS,
    )

    def for_evaluation(self, eval_file: str | None = None) -> "SquadSettings":
        other = None if self.holds_out else self.predict_file
        return dataclasses.replace(self, eval_file=eval_file or self.eval_file or other)


def check_files(settings: SquadSettings) -> None:
    """Refuses an action without its file."""
    for action, name in (("do_train", "train_file"), ("do_predict", "predict_file")):
        if getattr(settings, action) and not getattr(settings, name):
            raise Mistake("{} needs {}, a file of SQuAD's JSON", Setting(action), Setting(name))


def without_evaluation(settings: SquadSettings) -> SquadSettings:
    """Returns the settings of a command for a trained model, without the data that training has evaluated on."""
    kept = 0.0 if "eval_share" not in settings.given else settings.eval_share
    return dataclasses.replace(settings, eval_file=None, eval_share=kept)
