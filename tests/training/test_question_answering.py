"""The SQuAD task of a run, with fixed logits instead of a network."""

import json
import types

import numpy as np
import pytest
from tiny_squad import VOCABULARY, without_answers, write_squad

from bert_keras.data_prep.text.same_text import find_shared
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.question_answering.settings import SquadSettings
from bert_keras.tasks.question_answering.task import QuestionAnswering

# Each text begins with its answer, or has none.
PARAGRAPHS = [
    {
        "context": f"{name} lives rome",
        "qas": [{"id": f"q{number}", "question": "who lives", "answers": answers, "is_impossible": not answers}],
    }
    for number, (name, answers) in enumerate(
        [
            ("ada", [{"text": "ada", "answer_start": 0}]),
            ("bob", [{"text": "bob", "answer_start": 0}]),
            ("eve", []),
            ("joe", []),
        ]
    )
]
# [CLS] who lives [SEP] name lives rome [SEP]
NAME = 4


SETTINGS = {
    "max_seq_length": 12,
    "doc_stride": 4,
    "max_query_length": 3,
    "n_best_size": 3,
    "version_2_with_negative": True,
}


def write_vocabulary(path, tokens=VOCABULARY):
    path.write_text("".join(f"{token}\n" for token in tokens))
    return path


@pytest.fixture
def task(tmp_path):
    """Return a function that makes a task from the questions of each file, or its path, and from settings."""

    def make(train=None, evaluate=None, predict=None, given=False, tokenizer=None, **settings):
        settings = {**SETTINGS, **settings, "do_train": bool(train), "do_predict": bool(predict)}
        for name, content in (("train_file", train), ("eval_file", evaluate), ("predict_file", predict)):
            is_path = content is None or isinstance(content, str)
            settings[name] = content if is_path else write_squad(tmp_path / f"{name}.json", content)
        tokenizer = tokenizer or FullTokenizer(write_vocabulary(tmp_path / "vocab.txt"))
        files = types.SimpleNamespace(tokenizer=tokenizer, task=None)
        made = QuestionAnswering(SquadSettings(**settings), files, is_threshold_given=given)
        made.prepare(str(tmp_path))
        return made

    return make


def outputs_of(null_scores):
    """Returns logits that answer each question with the name, by odds of null_scores - 4."""
    start, end = np.zeros((2, len(null_scores), 12), np.float32)
    start[:, 0] = null_scores
    start[:, NAME] = 3
    end[:, NAME] = 1
    return {"start_logits": start, "end_logits": end}


def read(run_dir, name):
    with open(run_dir.file(name), encoding="utf-8") as file:
        return json.load(file)


def test_the_figures_of_the_first_version(task, tmp_path):
    answered = PARAGRAPHS[:2]
    made = task(evaluate=answered, version_2_with_negative=False)
    outputs = outputs_of([0, 0])
    outputs["end_logits"][1, NAME + 2] = 9
    # "ada" is correct; of "bob lives rome" one word of three is.
    assert made.evaluate(outputs) == pytest.approx({"exact_match": 50.0, "f1": 75.0})
    assert made.baseline == {"exact_match": 0.0, "f1": 0.0}
    assert (made.metric, made.metric_names) == ("f1", ("exact_match", "f1"))
    run_dir = RunDir(str(tmp_path), "run_squad")
    made.write_evaluation(run_dir, outputs)
    assert read(run_dir, "eval_predictions.json") == {"q0": "ada", "q1": "bob lives rome"}
    assert not (tmp_path / "eval_null_odds.json").exists()
    assert made.describe()["null_score_diff_threshold"] == 0.0


def with_answer(text, id_):
    question = {"id": id_, "question": "who lives", "answers": [{"text": text, "answer_start": 0.0}]}
    return [{"context": "ada lives rome", "qas": [question]}]


@pytest.mark.parametrize("version_2_with_negative", [False, True])
def test_answers_in_another_language_are_compared_by_its_rules(task, version_2_with_negative):
    settings = {"version_2_with_negative": version_2_with_negative, "null_score_diff_threshold": 9.0}
    for language, expected in ((None, 0.0), ("de", 100.0)):
        made = task(evaluate=with_answer("die „ada“", "a"), answer_language=language, **settings)
        metrics = made.evaluate(outputs_of([0]))
        assert metrics["exact" if version_2_with_negative else "exact_match"] == metrics["f1"] == expected


def test_a_script_without_spaces_is_warned_of_unless_the_language_is_named(task, messages):
    settings = {"evaluate": with_answer("北京大学", "a"), "version_2_with_negative": False}
    task(**settings, answer_language="zh")
    assert not any("partly correct" in message for message in messages)
    task(**settings)
    assert sum("a partly correct answer has F1 0" in message for message in messages) == 1


def test_an_id_may_be_a_number(task, tmp_path):
    made = task(evaluate=with_answer("ada", 7), version_2_with_negative=False)
    outputs = outputs_of([0])
    assert made.evaluate(outputs) == {"exact_match": 100.0, "f1": 100.0}
    run_dir = RunDir(str(tmp_path), "run_squad")
    made.write_evaluation(run_dir, outputs)
    assert read(run_dir, "eval_predictions.json") == {"7": "ada"}


def test_the_figures_of_the_second_version_and_the_threshold_that_gives_the_best(task, tmp_path, messages):
    made = task(evaluate=PARAGRAPHS, predict=without_answers(PARAGRAPHS))
    # Odds of 1, 2, 3 and 5: a threshold of 0 gives no answers, a threshold of 2 makes all correct.
    outputs = outputs_of([5, 6, 7, 9])
    metrics = made.evaluate(outputs)
    assert metrics == {
        "exact": 50.0,
        "f1": 50.0,
        "HasAns_exact": 0.0,
        "HasAns_f1": 0.0,
        "NoAns_exact": 100.0,
        "NoAns_f1": 100.0,
        "best_exact": 100.0,
        "best_exact_thresh": 2.0,
        "best_f1": 100.0,
        "best_f1_thresh": 2.0,
    }
    assert (made.metric, made.metric_names) == ("best_f1", tuple(metrics))
    assert made.results == metrics
    assert made.describe() == {
        "task": "question_answering",
        "max_seq_length": 12,
        "doc_stride": 4,
        "max_query_length": 3,
        "max_answer_length": 30,
        "n_best_size": 3,
        "version_2_with_negative": True,
        "null_score_diff_threshold": 2.0,
        "answer_text": "release",
    }
    run_dir = RunDir(str(tmp_path), "run_squad")
    assert made.write_evaluation(run_dir, outputs) is None  # other questions are those to answer
    assert messages[-1].endswith("eval_file.json: null_score_diff_threshold=2 gives the best F1, 100")
    # The questions that determined the threshold do not use it; others do.
    assert set(read(run_dir, "eval_predictions.json").values()) == {""}
    assert read(run_dir, "eval_null_odds.json") == {"q0": 1.0, "q1": 2.0, "q2": 3.0, "q3": 5.0}
    predictions = made.write_predictions(run_dir, outputs)
    assert predictions == read(run_dir, "predictions.json") == {"q0": "ada", "q1": "bob", "q2": "", "q3": ""}
    assert read(run_dir, "null_odds.json") == read(run_dir, "eval_null_odds.json")
    assert not (tmp_path / "predict_results.txt").exists()


def test_a_threshold_that_is_given_is_not_replaced(task, tmp_path, messages):
    made = task(evaluate=PARAGRAPHS, predict=PARAGRAPHS[::-1], given=True, null_score_diff_threshold=4.0)
    outputs = outputs_of([5, 6, 7, 9])
    metrics = made.evaluate(outputs)
    assert (metrics["exact"], metrics["NoAns_exact"], metrics["best_exact"]) == (75.0, 50.0, 100.0)
    assert made.describe()["null_score_diff_threshold"] == 4.0
    run_dir = RunDir(str(tmp_path), "run_squad")
    made.write_evaluation(run_dir, outputs)
    assert not any("gives the best F1" in message for message in messages)
    made.write_predictions(run_dir, {name: values[::-1] for name, values in outputs.items()})
    assert read(run_dir, "predictions.json") == {"q3": "", "q2": "eve", "q1": "bob", "q0": "ada"}
    results = (tmp_path / "predict_results.txt").read_text().splitlines()
    assert results[0] == "HasAns_exact = 100.000000"
    assert "exact = 75.000000" in results


def test_features_are_read_back_if_nothing_that_makes_them_differs(task, tmp_path, messages):
    other_words = write_vocabulary(tmp_path / "other.txt", [*VOCABULARY, "other"])
    path = write_squad(tmp_path / "dev.json", PARAGRAPHS)
    other_path = write_squad(tmp_path / "other.json", PARAGRAPHS[:2])

    def is_read_back(predict=path, **changes):
        messages.clear()
        made = task(predict=predict, **changes)
        features = made.eval_features or made.predict_features
        assert features["input_ids"].shape[1] == changes.get("max_seq_length", 12)
        return any("made earlier from the same data" in message for message in messages)

    vocab = write_vocabulary(tmp_path / "vocab.txt")
    changes = [
        *({"tokenizer": FullTokenizer(other_words)}, {"tokenizer": FullTokenizer(vocab, False)}),
        *({"tokenizer": FullTokenizer(vocab, True, False)}, {"predict": other_path}, {"max_seq_length": 11}),
        *({"doc_stride": 3}, {"max_query_length": 2}, {"version_2_with_negative": False}),
    ]
    for change in changes:
        assert not is_read_back()
        assert is_read_back()
        assert not is_read_back(**change)


def test_nothing_of_earlier_predictions_stays(task, tmp_path):
    run_dir = RunDir(str(tmp_path), "run_squad")
    left = ["null_odds.json", "predict_results.txt"]
    for made in (
        task(evaluate=PARAGRAPHS[:2], predict=without_answers(PARAGRAPHS[:2]), version_2_with_negative=False),
        task(predict=PARAGRAPHS[:2], version_2_with_negative=False),
    ):
        for name in left:
            (tmp_path / name).write_text("of another file")
        write = made.write_predictions if made.predict_features else made.write_evaluation
        write(run_dir, outputs_of([0] * 2))
        assert read(run_dir, "predictions.json") == {"q0": "ada", "q1": "bob"}
        assert [name for name in left if (tmp_path / name).exists()] == []


def test_never_to_answer_may_be_the_best(task):
    made = task(evaluate=[*PARAGRAPHS, *_renamed(PARAGRAPHS[2:])])
    # All answers are wrong: odds of -3, -2, -1, 0, 1 and 2.
    outputs = outputs_of([1, 2, 3, 4, 5, 6])
    outputs["end_logits"][:, NAME] = 0
    outputs["end_logits"][:, NAME + 2] = 1
    outputs["start_logits"][:, NAME] = 0
    outputs["start_logits"][:, NAME + 2] = 3
    metrics = made.evaluate(outputs)
    assert (metrics["best_f1"], metrics["best_f1_thresh"]) == (pytest.approx(400 / 6), 0.0)
    # The official threshold of 0 would answer four of them.
    assert metrics["f1"] == pytest.approx(200 / 6)
    assert made.describe()["null_score_diff_threshold"] == -4.0


def _renamed(paragraphs):
    return [
        {**paragraph, "qas": [{**question, "id": f"{question['id']}b"} for question in paragraph["qas"]]}
        for paragraph in paragraphs
    ]


def test_no_answer_at_all_is_what_knowing_nothing_gives(task):
    baseline = task(evaluate=PARAGRAPHS[:3]).baseline
    figures = [baseline[name] for name in ("exact", "f1", "best_exact", "best_f1")]
    assert figures == pytest.approx([100 / 3] * 4)
    assert (baseline["HasAns_f1"], baseline["NoAns_f1"]) == (0.0, 100.0)


def test_a_predict_file_with_answers_is_evaluated_on(task, tmp_path):
    made = task(predict=PARAGRAPHS)
    assert made.predict_features is None
    outputs = outputs_of([5, 6, 7, 9])
    assert made.evaluate(outputs)["best_f1"] == 100.0
    made.write_evaluation(RunDir(str(tmp_path), "run_squad"), outputs)
    assert (tmp_path / "predictions.json").exists()
    assert not (tmp_path / "eval_predictions.json").exists()
    assert (tmp_path / "eval.tf_record").exists()


def test_an_eval_file_that_is_the_predict_file_is_looked_at_once(task, tmp_path):
    path = write_squad(tmp_path / "dev.json", PARAGRAPHS)
    made = task(evaluate=path, predict=path)
    assert made.predict_features is None
    made.write_evaluation(RunDir(str(tmp_path), "run_squad"), outputs_of([0] * 4))
    assert (tmp_path / "predictions.json").exists()


def test_a_predict_file_with_some_answers_is_not_judged(task, tmp_path, messages):
    made = task(predict=[PARAGRAPHS[0], *without_answers(PARAGRAPHS[1:])])
    assert made.eval_features is None
    assert len(made.predict_features["input_ids"]) == 4
    assert made.metric_names == ()
    assert messages[0].endswith('is not evaluated: 3 of 4 questions have no answers, the first is "q1"')
    made.write_predictions(RunDir(str(tmp_path), "run_squad"), outputs_of([0] * 4))
    assert [message for message in messages if "is not evaluated" in message] == messages[:1]
    task(predict=PARAGRAPHS, version_2_with_negative=False)
    told = [message for message in messages if "is not evaluated" in message]
    assert told[1].endswith('have no answers, the first is "q2"; for SQuAD 2.0 give version_2_with_negative')


def test_passages_of_training_are_found_in_the_evaluation(task):
    texts = task(PARAGRAPHS[:2], PARAGRAPHS[1:]).texts
    keys = [[each.key for each in texts[part]] for part in ("eval", "train")]
    assert find_shared(*keys) == [(0, 1)]
    assert texts["eval"][0].place.endswith(f'eval_file.json question "{PARAGRAPHS[1]["qas"][0]["id"]}"')
    assert task(None, PARAGRAPHS).texts.keys() == {"eval"}


def test_an_eval_file_needs_answers(task):
    with pytest.raises(
        ValueError, match='eval_file.json question "q0" has no answers to compare with; give a file of quest'
    ):
        task(evaluate=without_answers(PARAGRAPHS))
    with pytest.raises(ValueError, match='question "q2" has no answers .* or version_2_with_negative for SQuAD 2.0'):
        task(evaluate=PARAGRAPHS, version_2_with_negative=False)


def test_texts_without_words_cannot_be_looked_at(task):
    with pytest.raises(ValueError, match="predict_file.json: no context contains a word; give a file with texts"):
        task(predict=[{**PARAGRAPHS[0], "context": " "}])


def test_training_has_what_the_release_s_records_have_and_counts_questions(task):
    long = {**PARAGRAPHS[0], "context": "ada lives rome" + " ." * 20}
    made = task(train=[long, *PARAGRAPHS[1:]], evaluate=PARAGRAPHS)
    assert made.num_train_examples == 4
    assert sorted(made.train_features) == [
        "end_positions",
        "input_ids",
        "input_mask",
        "is_impossible",
        "segment_ids",
        "start_positions",
        "unique_ids",
    ]
    windows = len(made.train_features["input_ids"])
    assert made.train_features["start_positions"].tolist() == [NAME] + [0] * (windows - 4) + [NAME, 0, 0]
    assert windows == 8


def test_facts_follow_the_files_of_training_and_evaluation(task):
    facts = task(evaluate=PARAGRAPHS, train=PARAGRAPHS).facts
    changed = task(evaluate=PARAGRAPHS[:3], train=PARAGRAPHS).facts
    assert sorted(facts) == ["eval_file_sha256", "train_file_sha256"]
    assert changed["eval_file_sha256"] != facts["eval_file_sha256"]
    assert changed["train_file_sha256"] == facts["train_file_sha256"]
