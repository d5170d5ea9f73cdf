"""The types that editors and type checkers see; .ci/check_types checks them, and no program runs this file.

A line with `pyright: ignore` has a mistake. pyright reports the line if it finds none.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from typing import Any, assert_type

from bert_keras import (
    BertModel,
    ChoicePicker,
    ClassifierModel,
    EntityTagger,
    FillMask,
    FullTokenizer,
    NextSentence,
    QuestionAnswerer,
    SentenceScorer,
    TextClassifier,
    TrainedModel,
    Unanswered,
    Vectorizer,
    export_model,
    open_model,
    pretrain,
    train_classifier,
    train_few_shot,
    train_ner,
    train_reranker,
    train_squad,
)
from bert_keras.prediction import (
    Choice,
    Classification,
    FilledText,
    MultiLabel,
    PairAnswer,
    QuestionAnswer,
    Regression,
    SentenceScore,
    Similarity,
    TaggedText,
    TextVector,
)
from bert_keras.prediction.predictor import Predictor

# A classifier gives classes, as most do, or the answers of the task that it is given.
assert_type(TextClassifier("run", task="classification")("a").label, str)
assert_type(TextClassifier("run", task="regression")("a").value, float)
assert_type(TextClassifier("run", task="multi_label")([("a", "b")])[0].labels, list[str])
assert_type(TextClassifier("run")("a"), Classification)
assert_type(TextClassifier("run", task="")("a"), Classification | Regression | MultiLabel)
assert_type(TextClassifier("run", task="classification").labels, list[str])

# The other classes have one kind of answer.
assert_type(EntityTagger("run")("a"), TaggedText)
assert_type(EntityTagger("run")("a").entities[0].type, str)
assert_type(QuestionAnswerer("run")(("a", "b")), QuestionAnswer)
assert_type(ChoicePicker("run")(("a", ["b", "c"])), Choice)
assert_type(FillMask("model")("a [MASK]"), FilledText)
assert_type(NextSentence("model")([("a", "b")]), list[PairAnswer])
assert_type(SentenceScorer("model")("a"), SentenceScore)
assert_type(Vectorizer("run")("a"), TextVector)
assert_type(Vectorizer("run")(["a", "b"]), list[TextVector])
assert_type(Vectorizer("run")([("a", "b")])[0], Similarity)
assert_type(next(EntityTagger("run").pipe(["a"])), TaggedText)
assert_type(next(EntityTagger("run").pipe(["a"], on_error="report")), TaggedText | Unanswered)

# `open_model` gives the class of the task.
assert_type(open_model("run"), Predictor[Any, Any])
assert_type(open_model("run").labels, list[str])
assert_type(open_model("run", task="classification")("a").label, str)
assert_type(open_model("run", task="regression")("a").value, float)
assert_type(open_model("run", task="token_classification", device="cpu"), EntityTagger)
assert_type(open_model("run", task="question_answering"), QuestionAnswerer)
assert_type(open_model("run", task="vectors")("a").vector, list[float])

# Networks and tokenizers.
assert_type(BertModel.from_checkpoint("model"), BertModel)
assert_type(ClassifierModel.from_checkpoint("model", has_new_head=True, num_classes=2), ClassifierModel)
assert_type(FullTokenizer.from_checkpoint("model").encode("a"), list[int])

export_model("run", export_dir="exported", format=["onnx", "litert"], quantize="int8")

# Training takes the settings of its program, and `pretrain` also those of the examples.
trained = train_classifier([("a", "b")], output_dir="run", learning_rate=[1e-5, 2e-5], seed=3)
assert_type(trained, TrainedModel[TextClassifier[Classification]])
assert_type(trained.predictor()("a").label, str)
train_classifier(unlabeled_data=["a"], output_dir="run", teacher="run", choice_columns=["a", "b"], on_step=print)
train_few_shot(class_names=["good", "bad"], output_dir="run", init_checkpoint="model", contrastive_epochs=5)
train_reranker([("a", "b", 1)], output_dir="run", rerank_loss="bce", train_batch_size=[8, 16])
assert_type(train_ner("train.txt", output_dir="run").predictor()("a"), TaggedText)
assert_type(train_squad("train.json", None, "dev.json", output_dir="run").predictor(), QuestionAnswerer)
assert_type(
    pretrain("text.txt", output_dir="run", bert_config_file="config.json", dupe_factor=5).predictor()("a"), FilledText
)

# Wrong names and values.
export_model("run", export_dir="exported", formats=["onnx"])  # pyright: ignore[reportCallIssue]
export_model("run")  # pyright: ignore[reportCallIssue]
train_classifier([("a", "b")], output_dir="run", lerning_rate=1e-5)  # pyright: ignore[reportCallIssue]
train_classifier([("a", "b")], output_dir="run", seed="3")  # pyright: ignore[reportArgumentType]
train_classifier([("a", "b")], output_dir="run", class_names=["a"])  # pyright: ignore[reportCallIssue]
train_squad("train.json")  # pyright: ignore[reportCallIssue]
pretrain("text.txt", output_dir="run", bert_config_file="config.json", dupe=5)  # pyright: ignore[reportCallIssue]
open_model("run", devise="cpu")  # pyright: ignore[reportCallIssue]
open_model("run", batch_size="16")  # pyright: ignore[reportArgumentType]
print(open_model("run", task="classification")("a").value)  # pyright: ignore[reportAttributeAccessIssue]
TextClassifier("run", labls=["a", "b"])  # pyright: ignore[reportCallIssue]
TextClassifier("run")("a", topk=1)  # pyright: ignore[reportCallIssue]
EntityTagger("run", treshold=0.5)  # pyright: ignore[reportCallIssue]
EntityTagger("run").pipe(["a"], treshold=0.5)  # pyright: ignore[reportCallIssue]
QuestionAnswerer("run")("a question")  # pyright: ignore[reportCallIssue, reportArgumentType]
FillMask("model", vocab="vocab.txt")  # pyright: ignore[reportCallIssue]
BertModel.from_checkpoint(3)  # pyright: ignore[reportArgumentType]
