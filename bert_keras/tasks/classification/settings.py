"""The settings of classification and of the check of labels."""

import dataclasses
from collections.abc import Iterator, Sequence

from bert_keras.cli.flags import ChoiceParser
from bert_keras.mistakes import Message, Mistake
from bert_keras.prediction.arguments import answer_precision
from bert_keras.settings.fields import REQUIRED, Settings, free, setting
from bert_keras.settings.groups import TAUGHT, EvaluatedSettings, HeldOutSettings, TeacherSettings
from bert_keras.settings.model_files import ModelSettings
from bert_keras.settings.numbers import ListedParser, NumberParser
from bert_keras.tasks.tables.settings import KINDS, KNOWN, TFDS, ColumnSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledTextSettings:
    """What programs that classify learn from, and how."""

    title = "Texts and labels"

    train_file: str | None = free("Your own data to train on: .csv, .tsv, .txt (tabs) or .jsonl.", None)
    eval_file: str | None = free("Your own data to evaluate on.", None)
    predict_file: str | None = free("Your own data to predict; it needs no labels.", None)
    calibrate: bool = setting(
        "Hold out a tenth of the examples to train on, and divide the weights of the head by the temperature that fits "
        "them best: the probabilities come closer to the share of right answers.",
        False,
    )
    class_weights: str | None = setting(
        "Weights of the classes in training: balanced, or a number for each label.", None, parser=ListedParser()
    )
    doc_stride: int | None = setting(
        "Split a long text into windows; the number of tokens from one start to the next. If not given: cut it.",
        None,
        lower_bound=1,
    )


class _KindParser(ChoiceParser):
    """Reads the kind of labels; a task that is not one names its program."""

    def parse(self, argument: str) -> str:
        if argument == "rerank":
            raise Mistake("to train rerankers, use run_reranker.py, in Python train_reranker")
        if argument == "few_shot":
            raise Mistake("to learn from few labels, use run_few_shot.py, in Python train_few_shot")
        return super().parse(argument)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnLabelSettings:
    """The kind of the labels in tables of the user, and how cells have them."""

    title = "Labels in your tables"

    kind: str = setting(
        "Kind of labels in your own data.",
        "single_label",
        choices=tuple(KINDS),
        parser=_KindParser(list(KINDS)),
        unless=KNOWN,
    )
    label_separator: str | None = setting(
        "Text between the labels in a cell, for {kind}=multi_label.",
        None,
        unless=KNOWN,
        needs={"kind": "multi_label"},
        is_rare=True,
    )
    choice_columns: Sequence[str] = setting(
        "Columns of the choices, separated by commas, or one of lists, for {kind}=multiple_choice.",
        (),
        unless=KNOWN | TFDS,
        needs={"kind": "multiple_choice"},
        is_rare=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(
    EvaluatedSettings, TeacherSettings, HeldOutSettings, OwnLabelSettings, ColumnSettings, LabelledTextSettings
):
    """The settings of run_classifier.py."""

    title = "Data and task"
    usage = """
    Fine-tunes BERT for classification, regression, multi-label or multiple-choice tasks, evaluates and predicts.

        python run_classifier.py --do_train --do_eval --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=mrpc \\
            --task_name=mrpc --data_dir=glue/MRPC
        python run_classifier.py --do_train --do_eval --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=reviews \\
            --train_file=reviews.csv --eval_share=0.2

    The data are a GLUE task, XNLI or SWAG by name, your own files (CSV, TSV, JSON lines), or a dataset of TensorFlow
    Datasets. Without any flag, the program runs a demo: it trains a tiny BERT on sample messages in a minute. To resume
    an interrupted run, run the same command again. The flags of the original BERT keep their names, defaults and
    meaning.
    """

    task_name: str | None = setting("A known task, such as mrpc, xnli or swag; needs {data_dir}.", None)
    data_dir: str | None = free(
        "Folder with the files of {task_name}, as distributed; for {tfds}, its data folder.",
        None,
        needs_any=("task_name", "tfds"),
    )
    unlabeled_file: str | None = free(
        "Texts without labels, which only {teacher} labels; as {train_file}.", None, needs=TAUGHT, is_rare=True
    )
    tfds: str | None = setting("A dataset of TensorFlow Datasets, such as glue/mrpc.", None)
    tfds_eval_split: str = free("Split of {tfds} to evaluate on.", "validation", needs=TFDS, is_rare=True)
    tfds_predict_split: str = free("Split of {tfds} to predict.", "test", needs=TFDS, is_rare=True)
    xnli_language: str = setting("Language of XNLI.", "zh", is_rare=True)
    metric: str | None = free(
        "Metric that selects the best model: accuracy, f1 (of the second of two labels), f1_macro or matthews; for "
        "numbers spearman or pearson; for several labels f1_micro, f1_macro or accuracy. If not given: the first "
        "metric of the task; for your own data accuracy, spearman or f1_micro.",
        None,
    )

    def without_effect(self) -> Iterator[tuple[str, Message]]:
        yield from super().without_effect()
        if (self.task_name or "").lower() != "xnli":
            yield "xnli_language", Message("without {task_name}=xnli; give both, or leave it out")

    def for_evaluation(self, eval_file: str | None = None) -> "ClassifierSettings":
        return dataclasses.replace(self, eval_file=eval_file, task_name=None, tfds=None) if eval_file else self

    def evaluation_data(self) -> str | None:
        return self.data_dir or "" if self.task_name or self.tfds else super().evaluation_data()


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelCheckSettings(Settings, ModelSettings, ColumnSettings):
    """The settings of check_labels.py."""

    title = "Data and check"
    usage = """
    Finds wrong labels in a table of texts, and the texts without a label that help most with one.

        python check_labels.py --train_file=reviews.csv --init_checkpoint=minilm --output_dir=checked
        python check_labels.py --train_file=reviews.csv --unlabeled_file=more.csv --init_checkpoint=minilm \\
            --output_dir=checked

    Each text gets its probabilities from a model of the other texts: a logistic regression on the vectors of the
    encoder, or with --fine_tune a fine-tuned model. The tables in --output_dir: suspects.tsv has the texts that
    contradict their label, confused_classes.tsv the classes that are taken for each other, duplicates.tsv equal texts
    with different labels, leaks.tsv texts of --eval_file that --train_file has, too, and next_labels.tsv the texts to
    label next.
    """

    train_file: str | None = setting("The labelled texts to check: .csv, .tsv, .txt (tabs) or .jsonl.", REQUIRED)
    eval_file: str | None = setting("Texts to evaluate on, to find texts that are also in {train_file}.", None)
    unlabeled_file: str | None = setting("Texts without labels, to find those that help most with a label.", None)
    num_next_labels: int = setting("Number of texts to choose from {unlabeled_file}.", 100, lower_bound=1)
    init_checkpoint: str | None = setting(
        "The encoder: checkpoint, its folder, or hf://owner/name; best one for vectors of sentences.", REQUIRED
    )
    output_dir: str | None = setting("Folder for the tables.", REQUIRED)
    max_seq_length: int = setting("Maximum number of tokens in a sequence, with [CLS] and [SEP].", 128, lower_bound=4)
    folds: int = setting("Number of parts; each gets its answers from a model of the others.", 5, lower_bound=2)
    fine_tune: bool = setting(
        "Fine-tune a model for each of the {folds}, instead of a logistic regression on vectors: slow. The neighbours, "
        "{eval_file} and {unlabeled_file} still use the vectors.",
        False,
    )
    contrastive_epochs: int = setting(
        "Train a few-shot model for each of the {folds}, whose encoder sees the texts so many times; 10 suits a few "
        "hundred texts. 0 leaves the encoder as it is.",
        0,
        lower_bound=0,
    )
    learning_rate: float = setting("For {fine_tune}: the highest learning rate.", 5e-5, parser=NumberParser(1e-12))
    num_train_epochs: float = setting("For {fine_tune}: number of passes over the texts.", 3.0, lower_bound=0.0)
    train_batch_size: int = setting("For {fine_tune}: number of texts in a step.", 32, lower_bound=1)
    eval_batch_size: int = setting("Number of texts to encode at a time.", 32, lower_bound=1)
    precision: str = answer_precision()
    seed: int = setting(
        "Seed of the folds, and of the training of their models.", 12345, lower_bound=0, upper_bound=2**31 - 1
    )
