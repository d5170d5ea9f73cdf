"""The settings of tagging."""

import dataclasses

from bert_keras.settings.fields import free, setting
from bert_keras.settings.groups import EvaluatedSettings, HeldOutSettings, TeacherSettings
from bert_keras.settings.model_files import WORDS
from bert_keras.storage import paths

# The name of the evaluation data in --data_dir.
USUAL_EVAL_FILE = "dev.txt"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerSettings(EvaluatedSettings, TeacherSettings, HeldOutSettings):
    """The settings of run_ner.py."""

    title = "Data and tags"
    usage = """
    Trains a model that tags words, for example named entities (paper, section 5.3), evaluates it and predicts.

        python run_ner.py --do_train --do_eval --do_predict --data_dir=conll2003 \\
            --init_checkpoint=cased_L-12_H-768_A-12 --output_dir=ner_model

    Files are CoNLL columns, with one word and its tag on each line, or JSON lines of words and tags. To resume an
    interrupted run, run the same command again. Without --do_train, the program uses the model in --output_dir.
    """

    data_dir: str | None = free("Folder with train.txt, dev.txt and test.txt.", None)
    train_file: str | None = free("Sentences to train on: columns as in CoNLL, or JSON lines (.jsonl, .json).", None)
    eval_file: str | None = free("Sentences to evaluate on.", None)
    predict_file: str | None = free("Sentences to tag; they need no tags.", None)
    word_column: int | None = setting(
        "Column of the words, from 0, or from the end as -2. If not given: the first that does not number the words.",
        None,
    )
    tag_column: int | None = setting("Column of the tags, from 0, or from the end as -2. If not given: the last.", None)
    document_context: bool = setting("Show the model each sentence with its neighbours in the document.", False)
    words: str = setting("How texts become words: as in CoNLL, or as the tokenizer does.", "conll", choices=WORDS)

    def for_evaluation(self, eval_file: str | None = None) -> "NerSettings":
        usual = self.data_dir and not self.eval_share and paths.join(self.data_dir, USUAL_EVAL_FILE)
        return dataclasses.replace(self, eval_file=eval_file or self.eval_file or usual or None)
