"""Interactive predictions equal the prediction files of the training programs."""

import json

import keras
import pytest
from known_models import make_config, write_model
from tiny_squad import paragraphs, without_answers, write_squad, write_start

import run_classifier
import run_ner
import run_squad
from bert_keras.modeling import PretrainingModel
from bert_keras.prediction import open_model

LETTERS = "a b c d e f g h i j k l m n o p"
SHORT_RUN = ["--do_train", "--do_predict", "--num_train_epochs=1", "--train_batch_size=4", "--learning_rate=0.01"]


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    keras.utils.set_random_seed(1)
    model = PretrainingModel(make_config(hidden_size=16, hidden_act="gelu"))
    return write_model(tmp_path_factory.mktemp("start"), model)


def test_classes_of_texts(start, tmp_path):
    texts = ["he was hungry", f"so he ate {LETTERS}", "paris is the capital", f"{LETTERS} {LETTERS}", "she walks"]
    rows = [f"{text}\t{('yes', 'no', 'perhaps')[number % 3]}" for number, text in enumerate(texts * 4)]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    (tmp_path / "test.tsv").write_text("text\n" + "\n".join(texts) + "\n")
    files = [f"--train_file={tmp_path / 'train.tsv'}", f"--predict_file={tmp_path / 'test.tsv'}"]
    flags = [f"--init_checkpoint={start}", f"--output_dir={tmp_path / 'out'}", "--max_seq_length=12", "--doc_stride=4"]
    run_classifier.main(["run_classifier.py", *SHORT_RUN, *files, *flags])
    classify = open_model(tmp_path / "out")
    lines = (tmp_path / "out" / "test_results.tsv").read_text().splitlines()
    for answer, line in zip(classify(texts), lines, strict=True):
        assert list(answer.probabilities.values()) == pytest.approx([float(x) for x in line.split("\t")], abs=1e-6)


def test_answers_to_questions(tmp_path):
    asked = paragraphs(8, 2, with_impossible=True)
    files = {
        "train": write_squad(tmp_path / "train.json", paragraphs(12, 1, with_impossible=True)),
        "predict": write_squad(tmp_path / "test.json", without_answers(asked)),
    }
    run_squad.main(
        ["run_squad.py", *SHORT_RUN, *(f"--{name}_file={path}" for name, path in files.items())]
        + [f"--init_checkpoint={write_start(tmp_path / 'start')}", f"--output_dir={tmp_path / 'out'}"]
        + ["--max_seq_length=14", "--max_query_length=6", "--doc_stride=3", "--n_best_size=6"]
        + ["--version_2_with_negative=True", "--null_score_diff_threshold=-0.3"]
    )
    read = {
        name: json.loads((tmp_path / "out" / f"{name}.json").read_text())
        for name in ("predictions", "nbest_predictions", "null_odds")
    }
    questions = [(qa["id"], qa["question"], text["context"]) for text in asked for qa in text["qas"]]
    answers = open_model(tmp_path / "out")([(question, context) for _, question, context in questions])
    for (id_, _, context), answer in zip(questions, answers, strict=True):
        assert answer.text == read["predictions"][id_]
        assert [(span.text, span.probability) for span in answer.n_best] == [
            (span["text"], pytest.approx(span["probability"], abs=1e-5)) for span in read["nbest_predictions"][id_]
        ]
        assert answer.text == ("" if answer.is_impossible else context[answer.start : answer.end])
        assert answer.null_odds == pytest.approx(read["null_odds"][id_], abs=1e-4)
        assert answer.null_threshold == -0.3


def test_tags_of_words(start, tmp_path):
    sentences = ["he was in paris", f"so {LETTERS} he ate {LETTERS}", "she walks", "the capital of france is paris"]
    tags = {"he": "B-PER", "she": "B-PER", "paris": "B-LOC", "france": "B-LOC"}
    lines = ("".join(f"{word} {tags.get(word, 'O')}\n" for word in text.split()) for text in sentences)
    (tmp_path / "train.txt").write_text("\n".join(lines))
    run_ner.main(
        ["run_ner.py", *SHORT_RUN, f"--train_file={tmp_path / 'train.txt'}", f"--predict_file={tmp_path / 'train.txt'}"]
        + [f"--init_checkpoint={start}", f"--output_dir={tmp_path / 'out'}", "--max_seq_length=12"]
        + ["--num_train_epochs=40", "--learning_rate=0.003"]
    )
    blocks = (tmp_path / "out" / "predictions.txt").read_text().strip().split("\n\n")
    answers = open_model(tmp_path / "out")(sentences)
    for answer, block in zip(answers, blocks, strict=True):
        written = [line.split() for line in block.splitlines()]
        assert [(word.word, word.tag) for word in answer.words] == [(row[0], row[-1]) for row in written]
    assert len({word.tag for answer in answers for word in answer.words}) > 1
