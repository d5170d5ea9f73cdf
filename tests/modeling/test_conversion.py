"""Conversion of checkpoints: the chosen entries, the copy that is checked, and no silent losses."""

import dataclasses
import re

import numpy as np
import pytest
from states import weights_of
from tiny_bert import make_config, make_model, with_random_weights

from bert_keras.data_prep.text.vocabulary import AddedWord, ExtendedVocabulary
from bert_keras.modeling import (
    PretrainingLoss,
    ReplacedTokenLoss,
    ReplacedTokenModel,
    SpanBoundaryLoss,
    SpanBoundaryModel,
    load_weights,
    open_checkpoint,
    save_checkpoint,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.conversion import (
    LINEAR_HEADS,
    Contents,
    check_labels,
    extend,
    keep_layers,
    select,
    without_other_entries,
    write_contents,
)
from bert_keras.modeling.checkpoints.copy_check import check_copy, largest_difference, run_network

CONFIG = make_config(num_hidden_layers=1)
HEADS = ("masked_lm", "next_sentence")


@pytest.fixture(scope="module")
def tensors():
    return weights_of(make_model(CONFIG))


@pytest.fixture
def write(tmp_path, tensors):
    """Return a function that writes a pre-training model with added or replaced entries, and opens it."""

    def write_and_open(**more):
        more = {name: np.zeros(shape, np.float32) for name, shape in more.items() if shape is not None}
        return open_checkpoint(save_checkpoint(tmp_path / "bert_model.ckpt", tensors | more))

    return write_and_open


class TestSelection:
    def test_other_heads_and_their_slots_are_left_out(self, write):
        slots = ("cls/predictions/output_bias/adam_m", "output_weights/adam_m", "bert/pooler/dense/bias/adam_v")
        untied = {"cls.predictions.decoder.weight": (40, 8)}
        checkpoint = write(output_weights=(2, 8), output_bias=2, global_step=(), **dict.fromkeys(slots, 2), **untied)
        names = without_other_entries(checkpoint, ("masked_lm",), with_training_state=True).names
        assert len(names) == 23 + 5 + 1 + 3
        assert {"global_step", "cls/predictions/output_bias/adam_m", "bert/pooler/dense/bias/adam_v"} < set(names)
        assert len(without_other_entries(checkpoint, ("classifier",)).names) == 23 + 2
        assert len(without_other_entries(checkpoint, ("next_sentence",)).names) == 23 + 2
        assert len(without_other_entries(checkpoint, ()).names) == 23

    def test_the_user_or_the_task_chooses_the_heads(self, write, messages):
        checkpoint = write(output_weights=(1, 8), output_bias=1)
        for head, expected in (("masked_lm", ("masked_lm",)), ("multiple_choice", ("multiple_choice",)), ("none", ())):
            assert select(checkpoint, CONFIG, "safetensors", head, False).heads == expected
        all_heads = select(checkpoint, CONFIG, "tensorflow", None, False, "token_classification", "token_classifier")
        assert all_heads.heads == ("masked_lm", "next_sentence", "token_classifier")
        assert messages == [
            "left out, by head=masked_lm: classifier, next_sentence",
            "left out, by head=none: classifier, masked_lm, next_sentence",
        ]

    @pytest.mark.parametrize(
        ("more", "head", "message"),
        [
            ({}, "squad", "has no such head, its heads are masked_lm, next_sentence; choose what is there, or none"),
            ({}, "classifier", "has no such head, its heads are masked_lm, next_sentence; choose what is"),
            ({"output_weights": (3, 8), "output_bias": 3}, "multiple_choice",
             "has 3 classes, and a choice has one score; choose classifier or token_classifier"),
            ({"output_weights": (3, 8), "output_bias": 3}, None,
             "no class of the Hugging Face layout has the heads masked_lm, next_sentence, classifier together"),
        ],
        ids=["squad", "classifier", "multiple choice", "no class"],
    )  # fmt: skip
    def test_heads_that_cannot_be_written_are_refused(self, write, more, head, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            select(write(**more), CONFIG, "safetensors", head, False)

    def test_a_config_and_a_state_to_keep_are_needed(self, write):
        with pytest.raises(ValueError, match=r"bert_model.ckpt has no config next to it; give the bert_config_file"):
            select(write(), None, "tensorflow", None, False)
        with pytest.raises(ValueError, match=r"keep_optimizer: .*bert_model.ckpt holds only weights; leave the flag"):
            select(write(), CONFIG, "tensorflow", None, True)

    @pytest.mark.parametrize("labels", [["a", "", "c"], [], ["a", " "]])
    def test_empty_names_of_classes_are_refused(self, labels):
        with pytest.raises(ValueError, match="labels has an empty name; give each class its own name"):
            check_labels(labels)

    def test_repeated_names_of_classes_are_refused(self):
        with pytest.raises(ValueError, match="labels has a more than once; give each class its own name"):
            check_labels(["a", "b", "a"])

    @pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "adapter/kernel", "cls/predictions/extra"])
    def test_entries_that_no_part_needs_are_refused(self, write, name):
        checkpoint = without_other_entries(write(**{name: (40, 8)}), ("masked_lm",))
        with pytest.raises(ValueError, match=re.escape(f"has 1 weights that the model lacks: {name};")):
            run_network(Contents(checkpoint, ("masked_lm",), CONFIG))

    @pytest.mark.parametrize("head", ["masked_lm", "next_sentence", "none"])
    def test_heads_that_the_project_does_not_know_can_be_left_out(self, write, messages, head):
        unknown = {"cls.species.weight": (5, 8), "crf/transitions": (3, 3), "crf/transitions/adam_m": (3, 3)}
        unknown |= {"classifier.dense.weight": (8, 8)}
        checkpoint = write(**unknown, global_step=())
        with pytest.raises(
            ValueError, match=r"has heads .* not know: classifier.dense.weight, cls.species.weight, crf/"
        ):
            select(checkpoint, CONFIG, "tensorflow", None, False)
        for keeps_optimizer in (False, True):
            contents = select(checkpoint, CONFIG, "tensorflow", head, keeps_optimizer)
            assert not set(unknown) & set(contents.checkpoint.names)
            assert ("global_step" in contents.checkpoint.names) == keeps_optimizer
        assert any("crf/transitions, crf/transitions/adam_m" in message for message in messages)
        run_network(contents)


def loss_of(kind, **changes):
    """Returns a loss of pre-training with random weights, and all its weights by their names."""
    switches = {
        "decoder": {"is_decoder": True},
        "electra": {"embedding_size": 6, "hidden_act": "gelu_erf", "pooler_act": "gelu_erf"},
        "shared layers": {"embedding_size": 6, "has_shared_layers": True},
        "spans": {},
    }[kind]
    config = make_config(num_hidden_layers=changes.pop("num_hidden_layers", 3), **switches, **changes)
    if kind == "electra":
        loss = ReplacedTokenLoss(with_random_weights(ReplacedTokenModel(config)), 0.5)
    elif kind == "spans":
        loss = SpanBoundaryLoss(with_random_weights(SpanBoundaryModel(config)))
    else:
        loss = PretrainingLoss(make_model(config), not config.is_decoder)
    return loss, {**weights_by_name(loss.model), **loss.own_weights}


class TestTrainingState:
    """A changed checkpoint with its optimizer fits a run of the changed model: every weight and slot has its shape."""

    @pytest.fixture(params=["decoder", "electra", "shared layers", "spans"])
    def case(self, request, tmp_path):
        loss, weights = loss_of(request.param)
        values = {name: np.asarray(weight) for name, weight in weights.items()}
        state = {
            f"{name}/{slot}": value for name, value in values.items() for slot in ("adam_m", "adam_v", "unaveraged")
        }
        checkpoint = open_checkpoint(save_checkpoint(tmp_path / "bert_model.ckpt", values | state))
        return request.param, select(checkpoint, loss.model.config, "tensorflow", None, True)

    @staticmethod
    def assert_fits(contents, kind, **changes):
        loss, weights = loss_of(kind, **changes)
        assert contents.config == loss.model.config
        assert load_weights(weights, contents.checkpoint).unused == []
        for name, weight in weights.items():
            for entry in (name, f"{name}/adam_m", f"{name}/adam_v", f"{name}/unaveraged"):
                assert contents.checkpoint.read(entry).shape == contents.checkpoint.shape(entry) == weight.shape

    def test_with_more_words(self, case):
        kind, contents = case
        vocabulary = [f"t{number}" for number in range(41)]
        words = ExtendedVocabulary(vocabulary, [AddedWord("t40", 40, None, (3, 4))], [])
        self.assert_fits(extend(contents, words), kind, vocab_size=41)

    def test_with_fewer_layers(self, case):
        kind, contents = case
        self.assert_fits(keep_layers(contents, ["3", "1"]), kind, num_hidden_layers=2)


class TestShapesOfHeads:
    @pytest.mark.parametrize(
        ("head", "weights", "bias", "needed"),
        [
            ("classifier", (3, 8), (1,), "[3, 8] and [3]"),
            ("token_classifier", (3, 1), (3,), "[3, 8] and [3]"),
            ("classifier", (), (3,), "[C, 8] and [C]"),
            ("classifier", (3, 8), None, "[3, 8] and [3]"),
            ("multiple_choice", (2, 8), (2,), "[1, 8] and [1]"),
            ("squad", (3, 8), (3,), "[2, 8] and [2]"),
            ("next_sentence", (1, 8), (1,), "[2, 8] and [2]"),
        ],
    )
    def test_a_head_of_other_shapes_is_refused(self, write, head, weights, bias, needed):
        beginning = LINEAR_HEADS[head][0]
        checkpoint = write(**{f"{beginning}weights": weights, f"{beginning}bias": bias})
        found = [f"{beginning}weights is {list(weights)}", f"{beginning}bias is {list(bias) if bias else 'missing'}"]
        sentence = f"has no head {head} that can be converted: {' and '.join(found)}, and they must be {needed}; get"
        with pytest.raises(ValueError, match=re.escape(sentence)):
            run_network(Contents(without_other_entries(checkpoint, (head,)), (head,), CONFIG))


class TestTheCheckOfACopy:
    @pytest.fixture
    def contents(self, write):
        return Contents(write(), HEADS, CONFIG)

    def test_the_network_that_is_run_is_that_of_the_config(self, contents):
        plain = run_network(contents)
        assert {name: value.shape for name, value in plain.items()} == {
            "sequence_output": (2, 16, 8),
            "pooled_output": (2, 8),
            "masked_lm": (2, 3, 40),
            "next_sentence": (2, 2),
        }
        for field, value in (("hidden_act", "gelu_erf"), ("layer_norm_eps", 1e-3), ("num_attention_heads", 4)):
            other = dataclasses.replace(contents, config=dataclasses.replace(CONFIG, **{field: value}))
            assert largest_difference(plain, run_network(other)) > 1e-5, field

    def test_a_copy_of_other_bits_or_another_config_is_refused(self, contents, tmp_path, tensors):
        other = dataclasses.replace(contents, config=dataclasses.replace(CONFIG, hidden_act="gelu_erf"))
        write_contents(other, tmp_path / "copy", "safetensors")
        with pytest.raises(ValueError, match=r"the written config is .*gelu_erf.*, not .*'gelu'.*; nothing is kept"):
            check_copy(tmp_path / "copy", contents, {})
        changed = tensors | {"bert/pooler/dense/bias": np.nextafter(tensors["bert/pooler/dense/bias"], np.float32(9))}
        del changed["bert/pooler/dense/kernel"]
        save_checkpoint(tmp_path / "other" / "bert_model.ckpt", changed)
        with pytest.raises(ValueError, match="differ from the input in bert/pooler/dense/bias, bert/pooler/dense/kern"):
            check_copy(tmp_path / "other", contents, {})

    def test_outputs_may_differ_by_the_order_of_a_sum_only(self, contents, tmp_path):
        write_contents(contents, tmp_path / "copy", "tensorflow")
        outputs = run_network(contents)

        def check_against(difference):
            changed = outputs["sequence_output"].copy()
            changed[0, 3, 5] += difference
            return check_copy(tmp_path / "copy", contents, outputs | {"sequence_output": changed})

        assert check_against(5e-6) == pytest.approx(5e-6, rel=0.1)
        for difference, told in ((0.25, "0.25"), (2e-5, "2"), (np.nan, "nan"), (np.inf, "inf")):
            with pytest.raises(ValueError, match=rf"outputs of the written network differ by {told}.*; nothing is kep"):
                check_against(difference)
        assert largest_difference({"x": np.array([0, np.nan])}, {"x": np.array([0, np.nan])}) == 0
