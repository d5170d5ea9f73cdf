"""Fine-tuned models of other libraries: config.json says the task, and every program takes them."""

import json

import numpy as np
import pytest
from converted import convert
from fine_tuned_models import (
    CLASSIFIER,
    FINE_TUNED,
    TASK_OF_CLASS,
    word_finder,
    word_tagger,
    write_fine_tuned,
    write_foreign,
)
from known_models import TOKENS, random_model, write_model
from tiny_exports import export_in_this_process
from tiny_variants import make_variant
from training_programs import run_classifier, run_ner, run_reranker

from bert_keras import tasks
from bert_keras.commands import predict
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import ReplacedTokenModel
from bert_keras.prediction import Limits, open_model

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def sentiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign") / "sentiment"
    return write_foreign(folder, "classification", id2label={"0": "bad", "1": "fair", "2": "good"})


def without_names(config_file):
    """Removes what transformers leaves out of a config.json."""
    values = json.loads(config_file.read_text())
    for key in ("id2label", "label2id"):
        values.pop(key, None)
    config_file.write_text(json.dumps(values))


@pytest.mark.parametrize("architecture", TASK_OF_CLASS)
def test_the_class_names_the_task(tmp_path, architecture):
    task, others = TASK_OF_CLASS[architecture]
    model = None
    if task in ("fill_mask", "next_sentence"):
        model = random_model(num_hidden_layers=1)
    write_foreign(tmp_path / "model", task, model, architecture)
    folder = ModelFolder(tmp_path / "model")
    assert (folder.settings["task"], folder.max_seq_length) == (task, 40)
    assert all(ModelFolder(tmp_path / "model", task=each).settings["task"] == each for each in (task, *others))
    assert tasks.predictor_of(task) is type(open_model(tmp_path / "model"))
    wrong = "classification" if task == "question_answering" else "question_answering"
    with pytest.raises(
        Mistake, match=f"task={wrong} is not a task of {architecture}, the class in .*config.json; give"
    ):
        open_model(tmp_path / "model", task=wrong)


def test_classes_without_names_have_those_of_transformers(tmp_path):
    folder = write_foreign(tmp_path / "model", "classification", num_labels=3)
    without_names(folder / "config.json")
    assert open_model(folder).labels == ["LABEL_0", "LABEL_1", "LABEL_2"]


@pytest.mark.parametrize(
    ("file", "values", "message"),
    [
        (
            "config.json",
            {"id2label": {str(n): f"c{n}" for n in range(5)}},
            "a head of 3 classes, but .*config.json names 5",
        ),
        (
            "config.json",
            {"id2label": None, "num_labels": 0},
            "config.json: num_labels is 0, but must be a whole number",
        ),
        (
            "config.json",
            {"max_position_embeddings": ["a"]},
            r'config.json: max_position_embeddings is \["a"\], but must be a whole number above 0; correct it',
        ),
        ("tokenizer_config.json", {"model_max_length": 0}, "tokenizer_config.json: model_max_length is 0, but must be"),
        ("tokenizer_config.json", {"model_max_length": "²"}, 'model_max_length is ".*", but must be a whole number'),
    ],
)
def test_a_wrong_value_is_refused_by_its_file(tmp_path, file, values, message):
    path = write_foreign(tmp_path / "model", "classification") / file
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))
    with pytest.raises(Mistake, match=message):
        open_model(tmp_path / "model")


@pytest.mark.parametrize("version", [None, "main"])
def test_a_version_without_a_number_counts_as_none(tmp_path, version):
    folder = write_foreign(tmp_path / "model", "classification", transformers_version=version)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    [types] = [each for each in ModelFolder(folder).check().decided if each.name == "token types"]
    assert types.value == "all 0"


def test_a_text_may_be_one_or_a_pair(sentiment):
    model = open_model(sentiment)
    single, pair = model("he was"), model(("he was", "hungry"))
    assert single.label in ("bad", "fair", "good")
    assert pair.text_pair == "hungry"
    assert pair.probabilities != single.probabilities
    assert [answer.text_pair for answer in model(["he was", ("he was", "hungry")])] == [None, "hungry"]
    with pytest.raises(ValueError, match="a pair of two texts is needed"):
        open_model(sentiment, is_pair=True)("he was")
    with pytest.raises(ValueError, match="takes single texts"):
        open_model(sentiment, is_pair=False)(("he was", "hungry"))


def test_the_words_of_a_tagger_are_those_of_its_tokenizer(tmp_path):
    folder, text = write_foreign(tmp_path / "tagger", "token_classification"), "he was in New-York/London"
    words = {rule: [word.word for word in open_model(folder, words=rule)(text).words] for rule in (None, "conll")}
    assert words[None] == ["he", "was", "in", "New", "-", "York", "/", "London"]
    assert words["conll"] == ["he", "was", "in", "New-York/London"]
    assert ModelFolder(folder).settings["words"] == "transformers"
    with pytest.raises(Mistake, match=r"words is 'spacy', but must be one of"):
        open_model(folder, words="spacy")
    with pytest.raises(Mistake, match="words is for taggers, and .* for classification; leave it out"):
        open_model(write_foreign(tmp_path / "texts", "classification"), words="conll")
    make, settings = FINE_TUNED["token_classification"]
    run = write_fine_tuned(tmp_path / "run", make(), "token_classification", **settings | {"words": "conll"})
    assert len(open_model(run)(text).words) == 4
    with pytest.raises(Mistake, match="words=transformers, but .* has conll; leave it out"):
        open_model(run, words="transformers")
    assert open_model(run, words="conll")(text) == open_model(run)(text)
    run = write_fine_tuned(tmp_path / "run", make(), "token_classification", **settings | {"words": "spacy"})
    with pytest.raises(Mistake, match='words is "spacy", but must be "conll" or "transformers"; take'):
        open_model(run)


def test_a_converted_tagger_says_its_words(tmp_path):
    make, settings = FINE_TUNED["token_classification"]
    run = write_fine_tuned(tmp_path / "run", make(), "token_classification", **settings | {"words": "conll"})
    text = "he was in New-York/London"
    expected = open_model(run)(text)
    folder = convert(run, tmp_path / "safetensors")
    assert open_model(folder)(text) == expected
    assert open_model(convert(folder, tmp_path / "tensorflow", "tensorflow"))(text) == expected
    (folder / "task.json").unlink()

    def words_in_log(model):
        [found] = [each for each in model.check().decided if each.name == "words"]
        return found.value, found.source

    assert len(open_model(folder)(text).words) == 8
    assert words_in_log(ModelFolder(folder)) == ("as the tokenizer splits texts", "the rules of the library")
    assert open_model(folder, words="conll")(text) == expected
    assert words_in_log(ModelFolder(folder, words="conll")) == ("as in CoNLL", "as given")


@pytest.mark.parametrize("rule", [None, "conll"])
def test_an_export_keeps_the_words_of_a_tagger(tmp_path, rule, capsys):
    folder, text = write_foreign(tmp_path / "tagger", "token_classification"), "in New-York/London"
    flags = [f"--words={rule}"] if rule else []
    export_in_this_process(f"--model_dir={folder}", f"--export_dir={tmp_path / 'export'}", "--format=onnx", *flags)
    found = [word.word for word in open_model(tmp_path / "export")(text).words]
    assert found == [word.word for word in open_model(folder, words=rule)(text).words]
    predict.main(["", f"--model_dir={folder}", "--json", text, *flags])
    assert [word["word"] for word in json.loads(capsys.readouterr().out.splitlines()[-1])["words"]] == found


class TestOpenQuestions:
    @pytest.fixture
    def number(self, tmp_path):
        return write_foreign(tmp_path / "number", "regression", architecture=CLASSIFIER)

    def test_a_head_of_one_number(self, number):
        with pytest.raises(Mistake, match=r"has one label and no problem_type, .*; give task=regression for a number"):
            open_model(number)
        value = open_model(number, task="regression")("he was").value
        [probability] = open_model(number, task="multi_label")("he was").probabilities.values()
        assert probability == pytest.approx(1 / (1 + np.exp(-value)))
        with pytest.raises(Mistake, match="has one class, whose probability is always 1"):
            open_model(number, task="classification")

    def test_what_the_file_says_counts(self, tmp_path):
        folder = write_foreign(
            tmp_path / "model", "multi_label", architecture=CLASSIFIER, problem_type="multi_label_classification"
        )
        assert open_model(folder).settings["task"] == "multi_label"
        with pytest.raises(Mistake, match="task=regression, but problem_type is multi_label_classification in"):
            open_model(folder, task="regression")
        several = write_foreign(tmp_path / "several", "multi_label", architecture=CLASSIFIER, problem_type="regression")
        with pytest.raises(Mistake, match="is a regression with 3 numbers; take a model with one"):
            open_model(several)

    def test_a_server_takes_the_answer_beside_other_models(self, number, tmp_path):
        from bert_keras.serving.versions import open_folders

        names = {"id2label": {"0": "bad", "1": "fair", "2": "good"}}
        other = write_foreign(tmp_path / "other", "classification", **names)
        folders = {"number": str(number), "other": str(other)}
        opened = open_folders(folders, ["regression"], Limits())
        assert [model.task for folder in opened for model in folder.models] == ["regression", "classification"]
        with pytest.raises(Mistake, match="task=multi_label, but the models are for classification; leave it out"):
            open_folders({"other": str(other)}, ["multi_label"], Limits())

    def test_a_class_that_is_not_known(self, tmp_path, capsys):
        names = {"id2label": {"0": "bad", "1": "fair", "2": "good"}}
        folder = write_foreign(tmp_path / "model", "classification", **names)
        expected = open_model(folder)("he was").probabilities
        file = folder / "config.json"
        file.write_text(file.read_text().replace(CLASSIFIER, "BertForReviews"))
        with pytest.raises(
            Mistake, match="has the class BertForReviews, and the weights may be those of several tasks"
        ):
            open_model(folder)
        assert open_model(folder, task="classification")("he was").probabilities == pytest.approx(expected, abs=1e-6)
        predict.main(["predict.py", f"--model_dir={folder}", "--task=classification", "--json", "he was"])
        answer = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert answer["probabilities"] == pytest.approx(expected, abs=1e-6)
        flags = [f"--model_dir={folder}", f"--export_dir={tmp_path / 'export'}", "--task=classification"]
        export_in_this_process(*flags, "--format=onnx")
        assert open_model(tmp_path / "export")("he was").probabilities == pytest.approx(expected, abs=1e-5)

    def test_an_encoder_has_no_task(self, tmp_path):
        folder = write_foreign(tmp_path / "model", "classification", architecture="BertModel")
        with pytest.raises(Mistake, match="is an encoder without a task: its files name none .* FeatureExtractor"):
            open_model(folder)
        with pytest.raises(Mistake, match="has BertModel, and the weights have the heads classifier; take a model"):
            open_model(folder, task="question_answering")
        assert open_model(folder, task="classification").labels == ["LABEL_0", "LABEL_1", "LABEL_2"]

    def test_pairs_are_for_classifiers(self, tmp_path):
        folder = write_foreign(tmp_path / "model", "token_classification")
        with pytest.raises(Mistake, match="is_pair is for classifiers, and Bert"):
            open_model(folder, is_pair=True)

    def test_programs_name_their_flag(self, number, capsys):
        with pytest.raises(ValueError, match="give task=regression"):
            predict.main(["predict.py", f"--model_dir={number}", "he was"])
        predict.main(["predict.py", f"--model_dir={number}", "--task=regression", "he was"])
        assert "he was" in capsys.readouterr().out


def test_questions_have_an_answer_unless_a_threshold_is_given(tmp_path):
    finder = word_finder({"paris": 5.0}, {"paris": 5.0})
    model = open_model(write_foreign(tmp_path / "model", "question_answering", finder))
    question = ("where is he", "he is in paris")
    answer = model(question)
    assert (answer.text, answer.null_odds, answer.null_threshold) == ("paris", None, None)
    refused = model(question, threshold=-1e6)
    assert refused.is_impossible
    assert model(question, threshold=refused.null_odds + 1).text == "paris"


class TestTags:
    @pytest.mark.parametrize(
        ("tags", "found"),
        [
            (["O", "B-PER", "I-PER", "E-PER", "S-PER"], [("PER", "he"), ("PER", "she was hungry")]),
            (["O", "PER", "LOC"], [("PER", "he"), ("LOC", "was"), ("PER", "she")]),
            (["NOUN", "VERB"], [("NOUN", "he"), ("VERB", "was so"), ("NOUN", "she")]),
        ],
    )
    def test_words_become_entities_as_the_tags_demand(self, tmp_path, tags, found):
        of_words = {
            5: {"he": "S-PER", "she": "B-PER", "was": "I-PER", "hungry": "E-PER"},
            3: {"he": "PER", "was": "LOC", "she": "PER"},
            2: {"he": "NOUN", "was": "VERB", "so": "VERB", "she": "NOUN"},
        }[len(tags)]
        text = {5: "he so she was hungry", 3: "he was so she", 2: "he was so she"}[len(tags)]
        model = word_tagger(of_words, tags)
        folder = write_foreign(
            tmp_path / "tagger", "token_classification", model, id2label={str(n): tag for n, tag in enumerate(tags)}
        )
        answer = open_model(folder)(text)
        assert [(entity.type, entity.text) for entity in answer.entities] == found


class TestPrograms:
    def test_predict_takes_single_texts_unless_told(self, sentiment, capsys):
        predict.main(["predict.py", f"--model_dir={sentiment}", "--json", "he was", "hungry"])
        assert [json.loads(line)["text_pair"] for line in capsys.readouterr().out.splitlines()] == [None, None]
        predict.main(["predict.py", f"--model_dir={sentiment}", "--json", "--is_pair", "he was", "hungry"])
        assert [json.loads(line)["text_pair"] for line in capsys.readouterr().out.splitlines()] == ["hungry"]

    def test_a_conversion_keeps_the_task(self, sentiment, tmp_path):
        expected = open_model(sentiment)(("he was", "hungry"))
        assert open_model(convert(sentiment, tmp_path / "copy", "tensorflow"))(("he was", "hungry")) == expected

    def test_a_server_takes_one_text_or_two(self, sentiment):
        from bert_keras.serving.forms import check, item_schema
        from bert_keras.serving.requests import RefusedError
        from bert_keras.serving.versions import open_folders

        [folder] = open_folders({"sentiment": str(sentiment)}, [], Limits())
        [served] = folder.models
        assert served.fields == ("text", "text_pair")
        items = [
            "he was",
            {"text": "he was"},
            {"text": "he was", "text_pair": ""},
            {"text": "he was", "text_pair": "so"},
        ]
        answers = list(served.answers(items, {}))
        assert [answer["text_pair"] for answer in answers] == [None, None, None, "so"]
        with pytest.raises(RefusedError, match='"text" is missing; "item" needs "text"'):
            check({"text_pair": "so"}, item_schema(served), "item")

    def test_a_server_has_them_beside_pretrained_models(self, sentiment, tmp_path):
        from bert_keras.serving.explanations import tokens_answer
        from bert_keras.serving.versions import open_folders

        electra = ReplacedTokenModel(make_variant("electra", vocab_size=len(TOKENS)))
        folders = {
            "electra": write_foreign(tmp_path / "electra", "replaced_tokens", electra, "ElectraForPreTraining"),
            "sentiment": sentiment,
        }
        opened = open_folders({name: str(folder) for name, folder in folders.items()}, [], Limits())
        served = [model for folder in opened for model in folder.models]
        assert [model.task for model in served] == ["replaced_tokens", "classification"]
        [answer] = served[0].answers(["he was"], {})
        assert [each.token for each in answer["tokens"]] == ["he", "was"]
        [sequence] = tokens_answer(served[0], "", {"item": "he was"}, None, 5)["sequences"]
        assert [token["token"] for token in sequence["tokens"]] == ["[CLS]", "he", "was", "[SEP]"]
        folders["bert"] = write_model(tmp_path / "bert", random_model(num_hidden_layers=1))
        opened = open_folders({name: str(folders[name]) for name in ("bert", "sentiment")}, ["fill_mask"], Limits())
        assert [model.task for folder in opened for model in folder.models] == ["fill_mask", "classification"]


class TestTraining:
    def test_the_head_stays_with_the_order_of_its_labels(self, tmp_path):
        rows = tmp_path / "rows.csv"
        rows.write_text("text,label\n" + "he was,good\nso she,bad\nparis,fair\n" * 4)
        folder = write_foreign(tmp_path / "start", "classification", id2label={"0": "good", "1": "bad", "2": "fair"})
        flags = [f"--init_checkpoint={folder}", "--max_seq_length=16"]
        run = ["run_classifier.py", "--do_eval", f"--eval_file={rows}", *flags]
        before = run_classifier.main([*run, f"--output_dir={tmp_path / 'evaluated'}"])
        training = [f"--train_file={rows}", "--do_train", "--learning_rate=1e-30", "--max_steps=1"]
        after = run_classifier.main([*run, *training, f"--output_dir={tmp_path / 'trained'}"])
        assert after["loss"] == pytest.approx(before["loss"], abs=1e-5)
        assert open_model(tmp_path / "trained").labels == ["good", "bad", "fair"]

    def test_a_head_of_one_number_is_evaluated_as_its_kind(self, tmp_path):
        folder = write_foreign(tmp_path / "start", "regression", architecture=CLASSIFIER)
        rows = tmp_path / "rows.csv"
        rows.write_text("text,label\nhe was,1.5\nso she,0.5\n")
        run = ["run_classifier.py", "--do_eval", f"--eval_file={rows}", f"--init_checkpoint={folder}"]
        run += ["--max_seq_length=16", f"--output_dir={tmp_path / 'out'}"]
        with pytest.raises(Mistake, match="has one label and no problem_type"):
            run_classifier.main(run)
        values = [answer.value for answer in open_model(folder, task="regression")(["he was", "so she"])]
        found = run_classifier.main([*run, "--kind=regression"])
        assert found["mae"] == pytest.approx(np.abs(np.subtract(values, [1.5, 0.5])).mean(), abs=1e-5)

    def test_a_head_of_one_number_is_a_reranker_for_the_program_of_rerankers(self, tmp_path):
        folder = write_foreign(tmp_path / "start", "regression", architecture=CLASSIFIER)
        rows = tmp_path / "rows.csv"
        rows.write_text("query,text\nhe,was\nhe,ate\n")
        run = ["run_reranker.py", "--do_predict", f"--predict_file={rows}", f"--init_checkpoint={folder}"]
        run_reranker.main([*run, "--max_seq_length=16", f"--output_dir={tmp_path / 'out'}"])
        [answer] = open_model(folder, task="rerank")([("he", ["was", "ate"])])
        expected = {each.text: each.score for each in answer.texts}
        for line in (tmp_path / "out" / "predictions.tsv").read_text().splitlines()[1:]:
            _, text, score = line.split("\t")
            assert float(score) == pytest.approx(expected[text], abs=1e-5)

    def test_a_tagger_is_evaluated(self, tmp_path):
        tags = {"id2label": {str(number): tag for number, tag in enumerate(["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])}}
        folder = write_foreign(tmp_path / "start", "token_classification", **tags)
        (tmp_path / "words.txt").write_text("he B-PER\nwas O\n\nparis B-LOC\n\n")
        run = ["run_ner.py", "--do_eval", f"--eval_file={tmp_path / 'words.txt'}", f"--init_checkpoint={folder}"]
        found = run_ner.main([*run, "--max_seq_length=16", f"--output_dir={tmp_path / 'out'}"])
        words = [word.tag for text in ("he was", "paris") for word in open_model(folder)(text).words]
        assert found["accuracy"] == pytest.approx(np.mean(np.equal(words, ["B-PER", "O", "B-LOC"])))
