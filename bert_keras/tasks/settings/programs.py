"""The settings of each program of fine-tuning."""

import dataclasses
from collections.abc import Iterator, Sequence

from absl import flags

from bert_keras.data_prep.tasks.columns import HEADERS
from bert_keras.data_prep.tasks.examples import KINDS
from bert_keras.data_prep.tasks.squad_answers import ANSWER_TEXTS
from bert_keras.evaluation.squad import LANGUAGES
from bert_keras.mistakes import Message, Mistake
from bert_keras.model_folder.tasks import POOLINGS
from bert_keras.settings.choices import TAGGERS
from bert_keras.settings.effects import ON
from bert_keras.settings.fields import REQUIRED, Settings, free, setting
from bert_keras.settings.groups import TAUGHT, EvaluatedSettings, TeacherSettings
from bert_keras.settings.model_files import ModelSettings
from bert_keras.settings.numbers import ListedParser, NumberParser

# Data that have their own form.
_KNOWN = {"task_name": ON}
_TFDS = {"tfds": ON}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnSettings:
    """How programs that classify read the user's tables."""

    title = "Columns of your own data"

    text_column: str | None = setting(
        "Column of the text: its name, or its number from 0; Subject,Body joins two. If not given: found by its name.",
        None,
        parser=ListedParser(),
        unless=_KNOWN,
    )
    text_pair_column: str | None = setting(
        "Column of the second text of a pair. If not given: found by its name.",
        None,
        parser=ListedParser(),
        unless=_KNOWN,
    )
    label_column: str | None = setting(
        "Column of the label. If not given: found by its name.", None, parser=ListedParser(), unless=_KNOWN
    )
    id_column: str | None = free(
        "Column of the id, for the tables of results. If not given: predictions have the row number from 0.",
        None,
        parser=ListedParser(),
        unless=_KNOWN,
    )
    has_header: str = setting(
        "Whether the first row of a .csv or .tsv file names the columns. auto: decided from its content.",
        "auto",
        choices=HEADERS,
        unless=_KNOWN | _TFDS,
    )
    skip_bad_rows: bool = setting("Leave out rows that cannot be read, and count them.", False, unless=_TFDS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledTextSettings:
    """What programs that classify learn from, and how."""

    title = "Texts and labels"

    train_file: str | None = free("Your own data to train on: .csv, .tsv, .txt (tabs) or .jsonl.", None)
    eval_file: str | None = free("Your own data to evaluate on.", None)
    predict_file: str | None = free("Your own data to predict; it needs no labels.", None)
    eval_share: float = setting(
        "Share of {train_file} to hold out for evaluation, such as 0.2.",
        0.0,
        unless=_KNOWN | _TFDS,
        needs={"train_file": ON},
        lower_bound=0.0,
        upper_bound=1.0,
    )
    calibrate: bool = setting(
        "Hold out a tenth of the examples to train on, and divide the weights of the head by the temperature that fits "
        "them best: the probabilities become as often right as they say.",
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


class _KindParser(flags.EnumParser):
    """Reads the kind of labels; a task that is not one names its program."""

    def parse(self, argument: str) -> str:
        if argument == "rerank":
            raise Mistake("to train rerankers, use run_reranker.py, in Python train_reranker")
        if argument == "few_shot":
            raise Mistake("to learn from few labels, use run_few_shot.py, in Python train_few_shot")
        return super().parse(argument)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierSettings(EvaluatedSettings, TeacherSettings, ColumnSettings, LabelledTextSettings):
    """The settings of run_classifier.py."""

    title = "Data and task"

    task_name: str | None = setting("A known task, such as mrpc, xnli or swag; needs {data_dir}.", None)
    data_dir: str | None = free(
        "Folder with the files of {task_name}, as distributed; for {tfds}, its data folder.",
        None,
        needs_any=("task_name", "tfds"),
    )
    unlabeled_file: str | None = free(
        "Texts without labels, which only {teacher} labels; as {train_file}.", None, needs=TAUGHT
    )
    tfds: str | None = setting("A dataset of TensorFlow Datasets, such as glue/mrpc.", None)
    tfds_eval_split: str = free("Split of {tfds} to evaluate on.", "validation", needs=_TFDS)
    tfds_predict_split: str = free("Split of {tfds} to predict.", "test", needs=_TFDS)
    kind: str = setting(
        "Kind of labels in your own data.",
        "single_label",
        choices=KINDS,
        parser=_KindParser(list(KINDS)),
        unless=_KNOWN,
    )
    label_separator: str | None = setting(
        "Text between the labels in a cell, for {kind}=multi_label.", None, unless=_KNOWN, needs={"kind": "multi_label"}
    )
    choice_columns: Sequence[str] = setting(
        "Columns of the choices, separated by commas, for {kind}=multiple_choice.",
        (),
        unless=_KNOWN | _TFDS,
        needs={"kind": "multiple_choice"},
    )
    xnli_language: str = setting("Language of XNLI.", "zh")
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadSettings(TeacherSettings):
    """The settings of run_squad.py."""

    title = "Data and answers"

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class NerSettings(EvaluatedSettings, TeacherSettings):
    """The settings of run_ner.py."""

    title = "Data and tags"

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
    tagger: str = setting(
        "Head of the model: linear, trained with the encoder; bilstm, LSTMs on an encoder that does not change; "
        "bilstm_tuned, LSTMs that are trained with the encoder.",
        "linear",
        choices=TAGGERS,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSettings(EvaluatedSettings):
    """The settings of run_sentence_vectors.py."""

    title = "Data and vectors"

    train_file: str | None = free(
        "Texts to train on: pairs or triplets, scored pairs, labelled inferences, or single texts. Table (.csv, .tsv, "
        ".jsonl), or .txt with a text a line.",
        None,
    )
    eval_file: str | None = free(
        "Texts to evaluate on: scored pairs for correlations, pairs for retrieval, texts with classes for clustering.",
        None,
    )
    predict_file: str | None = free("Texts to write the vectors of, or pairs for their cosines.", None)
    text_columns: Sequence[str] = free(
        "Columns of the texts: one; two that belong together; further columns do not belong to the first. If not "
        "given: found by their names, with scores and labels.",
        (),
    )
    score_column: str | None = free("Column with the score of each pair.", None, parser=ListedParser())
    label_column: str | None = free(
        "Column with the class of each text, or the inference of each pair.", None, parser=ListedParser()
    )
    has_header: str = free(
        "Whether the first row of a .csv or .tsv file names the columns. auto: decided from its content.",
        "auto",
        choices=HEADERS,
    )
    pooling: str = setting(
        "How the vectors of tokens become one: that of [CLS], mean, maximum.", "mean", choices=POOLINGS
    )
    normalize: bool = setting("Give all vectors the length 1.", True)
    prefix: str = setting('Text before each text, such as "query: ". The model stores it.', "")
    scale: float = setting(
        "Factor of the cosines in the ranking loss, 1 / temperature.", 20.0, parser=NumberParser(0.01)
    )
    max_score: float | None = setting(
        "Score of two texts of the same meaning. If not given: the highest in {train_file}.",
        None,
        parser=NumberParser(0.01),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelCheckSettings(Settings, ModelSettings, ColumnSettings):
    """The settings of check_labels.py."""

    title = "Data and check"

    train_file: str | None = setting("The labelled texts to check: .csv, .tsv, .txt (tabs) or .jsonl.", REQUIRED)
    eval_file: str | None = setting("Texts to evaluate on, to find those that are also in {train_file}.", None)
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
    seed: int = setting("Seed of the folds, and of the training of their models.", 12345, lower_bound=0)
