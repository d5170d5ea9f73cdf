"""The tokenizer, training and prediction, used as the pages tell a Python user to."""

import itertools

import keras
import numpy as np
import pandas
import pytest
import tensorflow as tf
from keras_user import CLASSES, TEXTS, TOKENS, compiled, load_encoder, write_pretrained

from bert_keras import (
    FillMask,
    FullTokenizer,
    TextClassifier,
    TokenizerLayer,
    Unanswered,
    open_model,
    train_classifier,
)

ROWS = [
    (f"{subject} {verb} {word}{end}", label)
    for (word, label), subject, verb, end in itertools.product(
        [("good", "pos"), ("bad", "neg")], ["the film", "they", "ada", "bob"], ["was", "left"], ["", "."]
    )
]
TABLE = pandas.DataFrame(ROWS, columns=["text", "label"]).sample(frac=1, random_state=0)
SETTINGS = {
    "max_seq_length": 12,
    "train_batch_size": 8,
    "learning_rate": 0.01,
    "num_train_epochs": 6,
    "eval_steps": 12,
    "save_checkpoints_steps": 12,
    "log_steps": 8,
    "verbose": False,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pretrained(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def calls():
    return {"step": [], "evaluation": [], "save": []}


@pytest.fixture(scope="module")
def trained(folder, calls, tmp_path_factory):
    """A classifier that was trained on a table."""
    return train_classifier(
        TABLE,
        TABLE,
        TABLE["text"],
        output_dir=tmp_path_factory.mktemp("runs") / "films",
        init_checkpoint=folder,
        on_step=lambda step, metrics: calls["step"].append((step, metrics)),
        on_evaluation=lambda step, metrics: calls["evaluation"].append((step, metrics)),
        on_save=lambda step, path: calls["save"].append((step, path)),
        **SETTINGS,
    )


@pytest.fixture(scope="module")
def classify(trained):
    return trained.predictor()


class TestTokenizer:
    def test_texts_become_inputs(self, folder):
        tokenizer = FullTokenizer.from_checkpoint(folder)
        expected = [[tokenizer.cls_id, *map(TOKENS.index, ["they", "left", "."]), tokenizer.sep_id, 0]]
        text = "They left."
        for texts in ([text], np.array([text]), pandas.Series([text]), iter([text])):
            features = tokenizer(texts, sequence_length=6)
            assert features["input_ids"].tolist() == expected
            assert features["input_mask"].tolist() == [[1, 1, 1, 1, 1, 0]]
            assert features["input_ids"].dtype == np.int32
        assert tokenizer(text)["input_ids"].tolist() == [expected[0][:5]]
        assert tokenizer(["The film was good."] * 2, sequence_length=5)["input_ids"].shape == (2, 5)
        assert tokenizer(["Good.", "Bad"], sequence_length=20, pad_to_longest=True)["input_ids"].shape == (2, 4)

    def test_pairs_come_as_tuples_as_two_lists_or_as_a_table(self, folder):
        tokenizer = FullTokenizer.from_checkpoint(folder)
        pairs = [("They left.", "Good."), ("Bad.", "The film was bad.")]
        expected = tokenizer(pairs, sequence_length=9)
        assert expected["segment_ids"][0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0]
        for same in (tuple(map(list, zip(*pairs, strict=True))), pandas.DataFrame(pairs)):
            for name, values in tokenizer(same, sequence_length=9).items():
                np.testing.assert_array_equal(values, expected[name])

    def test_offsets_give_the_words(self, folder):
        text = "The  FILM was good."
        features = FullTokenizer.from_checkpoint(folder)([text], with_offsets=True)
        words = [text[start:end] for start, end in features["offsets"][0]]
        assert words == ["", "The", "FILM", "was", "good", ".", ""]

    def test_ids_become_text_and_a_saved_tokenizer_is_the_same(self, folder, tmp_path):
        tokenizer = FullTokenizer.from_checkpoint(folder)
        ids = tokenizer.encode("They left. Good?")
        assert tokenizer.convert_ids_to_tokens(ids) == ["they", "left", ".", "good", "?"]
        assert tokenizer.decode(ids) == "they left. good?"
        tokenizer.save(tmp_path / "my_model")
        again = FullTokenizer.from_checkpoint(tmp_path / "my_model")
        assert again.tokens == tokenizer.tokens == TOKENS
        assert again.encode("They LEFT") == ids[:2]
        with pytest.raises(ValueError, match="vocab.txt"):
            tokenizer.save(tmp_path / "my_model")

    @pytest.mark.usefixtures("no_graphs")
    def test_the_layer_gives_the_same_in_a_pipeline_and_in_a_model(self, folder, tmp_path):
        expected = FullTokenizer.from_checkpoint(folder)(TEXTS, sequence_length=12)
        layer = TokenizerLayer.from_checkpoint(folder, sequence_length=12)
        data = tf.data.Dataset.from_tensor_slices((TEXTS, CLASSES)).batch(4)
        ((features, labels),) = data.map(lambda text, label: (layer(text), label)).as_numpy_iterator()
        assert labels.tolist() == CLASSES.tolist()
        texts = keras.Input((), dtype="string")
        inputs = layer(texts)
        keras.Model(texts, inputs).save(tmp_path / "tokenizer.keras")
        loaded = keras.models.load_model(tmp_path / "tokenizer.keras")(tf.constant(TEXTS))
        for name, values in expected.items():
            np.testing.assert_array_equal(features[name], values)
            np.testing.assert_array_equal(loaded[name], values)
        bert = load_encoder(folder)
        model = keras.Model(texts, bert(inputs)["pooled_output"])
        np.testing.assert_array_equal(
            model.predict(tf.constant(TEXTS), verbose=0), bert.predict(expected, verbose=0)["pooled_output"]
        )
        probe = compiled(keras.Model(texts, keras.layers.Dense(2)(model.output)), keras.optimizers.SGD(0.1))
        losses = probe.fit(data, epochs=3, shuffle=False, verbose=0).history["loss"]
        assert len(set(losses)) == 3


class TestTraining:
    def test_the_result_has_metrics_predictions_history_and_settings(self, trained):
        assert trained.metrics["accuracy"] == 1
        assert [row["prediction"] for row in trained.predictions] == TABLE["label"].tolist()
        assert all(
            row["probability of pos"] + row["probability of neg"] == pytest.approx(1) for row in trained.predictions
        )
        history = pandas.DataFrame(trained.history)
        assert history[history.split == "eval"].step.tolist() == [12, 24]
        assert history[history.split == "eval"].accuracy.max() == 1
        assert trained.settings["learning_rate"] == 0.01
        assert "accuracy 100.0 %" in str(trained)

    def test_callbacks_get_steps_evaluations_and_checkpoints(self, calls, trained):
        assert [step for step, _ in calls["step"]] == [1, 8, 16, 24]
        assert calls["step"][-1][1]["loss"] < calls["step"][0][1]["loss"]
        assert [step for step, _ in calls["evaluation"]] == [12, 24]
        assert max(metrics["accuracy"] for _, metrics in calls["evaluation"]) == 1
        assert [step for step, _ in calls["save"]] == [12, 24]
        assert all(tf.train.latest_checkpoint(trained.folder).rsplit("-")[0] in path for _, path in calls["save"])

    def test_the_finished_run_can_be_evaluated_on_other_data(self, trained):
        wrong = [(text, "neg" if label == "pos" else "pos") for text, label in ROWS]
        assert train_classifier(eval_data=wrong, output_dir=trained.folder, verbose=False).metrics["accuracy"] == 0

    def test_mistakes_are_sentences(self, folder, tmp_path):
        with pytest.raises(TypeError, match='no setting "lerning_rate"; did you mean "learning_rate"'):
            train_classifier(TABLE, output_dir=tmp_path / "run", init_checkpoint=folder, lerning_rate=1)
        with pytest.raises(ValueError, match="^eval_steps says when to evaluate; give eval_data "):
            train_classifier(TABLE, output_dir=tmp_path / "run", init_checkpoint=folder, **SETTINGS)
        rows = [("good", "pos"), ("", "neg")]
        with pytest.raises(ValueError, match="^train_data-.*jsonl line 2: "):
            train_classifier(rows, rows, output_dir=tmp_path / "run", init_checkpoint=folder, **SETTINGS)
        assert not (tmp_path / "run").exists()


class TestPredictors:
    def test_one_text_gives_one_answer_and_several_a_list(self, classify):
        answer = classify("The film was good.")
        assert answer.label == "pos"
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        texts = ["The film was good.", "They left bad"]
        for several in (texts, np.array(texts), pandas.Series(texts, index=[7, 9]), (text for text in texts)):
            assert [found.label for found in classify(several)] == ["pos", "neg"]
        with pytest.raises(ValueError, match="dict"):
            classify({"text": "good"})

    def test_pipe_takes_any_number_of_texts(self, classify):
        labels = [answer.label for answer in classify.pipe((text for text, _ in ROWS * 20), batch_size=7)]
        assert labels == [label for _, label in ROWS] * 20
        endless = classify.pipe(text for text, _ in itertools.cycle(ROWS))
        assert [next(endless).label for _ in range(3)] == ["pos"] * 3
        good, bad = classify.pipe(["good", 7], on_error="report", sources=["line 1", "line 2"])
        assert (good.label, type(bad), bad.source) == ("pos", Unanswered, "line 2")

    def test_options_of_a_call(self, classify):
        assert list(classify("good", top_k=1).probabilities) == ["pos"]
        assert len(classify("good").probabilities) == 2
        with pytest.raises(ValueError, match="threshold"):
            classify("good", threshold=0.3)

    def test_labels_device_warmup(self, trained):
        renamed = open_model(trained.folder, labels={"pos": "yes"}, device="cpu").warmup(lengths=[12])
        assert (sorted(renamed.labels), renamed("good").label, renamed.num_traces) == (["neg", "yes"], "yes", 1)
        assert TextClassifier(trained.folder, labels=["no", "yes"])("bad").label == "no"
        with pytest.raises(ValueError, match="device"):
            open_model(trained.folder, device="quantum")

    def test_masks_are_filled(self, folder):
        fill_mask = FillMask(folder, top_k=3)
        text = "the film was [MASK] ."
        assert len(fill_mask(text).masks[0]) == 3
        guesses = fill_mask(text, top_k=len(TOKENS)).masks[0]
        assert sum(guess.probability for guess in guesses) == pytest.approx(1, abs=1e-5)
        shares = {guess.token: guess.probability for guess in guesses}
        chosen = fill_mask(text, candidates=["good", "bad"]).masks[0]
        assert {guess.token for guess in chosen} == {"good", "bad"}
        assert all(guess.probability == pytest.approx(shares[guess.token], rel=1e-4) for guess in chosen)
        assert chosen[0].probability >= chosen[1].probability
        with pytest.raises(ValueError, match="cinema"):
            fill_mask(text, candidates=["cinema"])
