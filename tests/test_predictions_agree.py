"""Interactive predictions equal the prediction files of the fine-tuning programs."""

import json

import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    random_answerer,
    random_classifier,
    randomise,
    small_config,
    write_fine_tuned,
)
from tiny_squad import write_squad

import run_classifier
import run_ner
import run_squad
from bert_keras.modeling import TokenClassifierModel
from bert_keras.prediction import open_model

ONE_LAYER = {"num_hidden_layers": 1}
LETTERS = "a b c d e f g h i j k l m n o p"
TEXTS = ["he was hungry", f"so {LETTERS} he ate {LETTERS}", "she walks", "the capital of france is paris"]


def predict(program, run, file):
    """Writes the prediction files of a fine-tuned model into its run folder."""
    name = program.__name__
    program.main([f"{name}.py", "--do_predict", f"--predict_file={file}", f"--output_dir={run}"])


def test_classes_of_texts(tmp_path):
    settings = OF_TEXTS | {"labels": ["yes", "no", "perhaps"], "doc_stride": 4}
    run = write_fine_tuned(tmp_path / "run", random_classifier(3, **ONE_LAYER), "classification", **settings)
    (tmp_path / "test.tsv").write_text("\n".join(["text", *TEXTS, ""]))
    predict(run_classifier, run, tmp_path / "test.tsv")
    lines = (run / "test_results.tsv").read_text().splitlines()
    for answer, line in zip(open_model(run)(TEXTS), lines, strict=True):
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
