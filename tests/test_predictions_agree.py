"""Interactive predictions equal the prediction files of the fine-tuning programs."""

import json

import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    TAGS,
    random_answerer,
    randomise,
    small_config,
    write_fine_tuned,
)
from known_models import random_model, write_model
from tiny_squad import write_squad
from training_programs import run_classifier, run_ner, run_squad

from bert_keras.modeling import TokenClassifierModel
from bert_keras.prediction import open_model

pytestmark = pytest.mark.usefixtures("no_graphs")

ONE_LAYER = {"num_hidden_layers": 1}
LETTERS = "a b c d e f g h i j k l m n o p"
TEXTS = ["he was hungry", f"so {LETTERS} he ate {LETTERS}", "she walks", "the capital of france is paris"]


def predict(program, run, file):
    """Writes the prediction files of a fine-tuned model into its run folder."""
    name = program.name
    program.main([f"{name}.py", "--do_predict", f"--predict_file={file}", f"--output_dir={run}"])


@pytest.mark.usefixtures("no_graphs")
def test_classes_of_texts(tmp_path):
    """The run is a real one, so the settings that training stores are those that prediction needs."""
    rows = [f"{text}\t{('yes', 'no', 'perhaps')[number % 3]}" for number, text in enumerate(TEXTS * 4)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    (tmp_path / "test.tsv").write_text("\n".join(["text", *TEXTS, ""]))
    start = write_model(tmp_path / "start", random_model(**ONE_LAYER))
    flags = [f"--train_file={tmp_path / 'train.tsv'}", f"--predict_file={tmp_path / 'test.tsv'}", "--doc_stride=4"]
    flags += [f"--init_checkpoint={start}", f"--output_dir={tmp_path / 'run'}", "--max_seq_length=16"]
    run_classifier.main(
        ["run_classifier.py", "--do_train", "--do_predict", "--train_batch_size=8", "--num_train_epochs=1", *flags]
    )
    lines = (tmp_path / "run" / "test_results.tsv").read_text().splitlines()
    for answer, line in zip(open_model(tmp_path / "run")(TEXTS), lines, strict=True):
        assert list(answer.probabilities.values()) == pytest.approx([float(x) for x in line.split("\t")], abs=1e-6)


def test_answers_to_questions(tmp_path):
    settings = OF_ANSWERS | {"version_2_with_negative": True, "null_score_diff_threshold": -0.3}
    run = write_fine_tuned(tmp_path / "run", random_answerer(seed=6, **ONE_LAYER), "question_answering", **settings)
    questions = [{"id": question, "question": question} for question in ("who was hungry", "where is paris")]
    paragraphs = [
        {"context": text, "qas": [{**qa, "id": f"{qa['id']} {n}"} for qa in questions]} for n, text in enumerate(TEXTS)
    ]
    predict(run_squad, run, write_squad(tmp_path / "test.json", paragraphs))
    read = {
        name: json.loads((run / f"{name}.json").read_text())
        for name in ("predictions", "nbest_predictions", "null_odds")
    }
    asked = [(qa["id"], qa["question"], text["context"]) for text in paragraphs for qa in text["qas"]]
    answers = open_model(run)([(question, context) for _, question, context in asked])
    for (id_, _, context), answer in zip(asked, answers, strict=True):
        assert answer.text == read["predictions"][id_]
        assert [(span.text, span.probability) for span in answer.n_best] == [
            (span["text"], pytest.approx(span["probability"], abs=1e-5)) for span in read["nbest_predictions"][id_]
        ]
        assert answer.text == ("" if answer.is_impossible else context[answer.start : answer.end])
        assert answer.null_odds == pytest.approx(read["null_odds"][id_], abs=1e-4)
        assert answer.null_threshold == -0.3
    assert len({answer.is_impossible for answer in answers}) == 2


def test_tags_of_words(tmp_path):
    model = randomise(TokenClassifierModel(small_config(**ONE_LAYER), len(TAGS)))
    run = write_fine_tuned(tmp_path / "run", model, "token_classification", labels=TAGS, **OF_TAGS)
    (tmp_path / "test.txt").write_text("\n".join("".join(f"{word}\n" for word in text.split()) for text in TEXTS))
    predict(run_ner, run, tmp_path / "test.txt")
    blocks = (run / "predictions.txt").read_text().strip().split("\n\n")
    answers = open_model(run)(TEXTS)
    for answer, block in zip(answers, blocks, strict=True):
        written = [line.split() for line in block.splitlines()]
        assert [(word.word, word.tag) for word in answer.words] == [(row[0], row[-1]) for row in written]
    assert len({word.tag for answer in answers for word in answer.words}) > 1
