"""Conversion of checkpoints: the converted entries, and no silent losses."""

import re

import numpy as np
import pytest
from tiny_bert import make_config, make_model

from bert_keras.modeling import open_checkpoint, save_checkpoint, weights_by_name
from bert_keras.modeling.checkpoints.conversion import LINEAR_HEADS, Contents, SelectedEntries, run_network
from bert_keras.modeling.checkpoints.loading import Checkpoint


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a pre-training model with added or replaced entries, and opens it."""

    def write_and_open(**more):
        tensors = {name: np.asarray(weight) for name, weight in weights_by_name(make_model(make_config())).items()}
        more = {name: np.zeros(shape, np.float32) for name, shape in more.items() if shape is not None}
        return open_checkpoint(save_checkpoint(tmp_path / "bert_model.ckpt", tensors | more))

    return write_and_open


def select(checkpoint, heads, **more):
    return Checkpoint(checkpoint.prefix, SelectedEntries(checkpoint, heads, **more))


class TestSelection:
    def test_other_heads_and_their_slots_are_left_out(self, write):
        slots = ("cls/predictions/output_bias/adam_m", "output_weights/adam_m", "bert/pooler/dense/bias/adam_v")
        checkpoint = write(output_weights=(2, 8), output_bias=2, global_step=(), **dict.fromkeys(slots, 2))
        names = select(checkpoint, ("masked_lm",), with_training_state=True).names
        assert len(names) == 39 + 5 + 3
        assert {"global_step", "cls/predictions/output_bias/adam_m", "bert/pooler/dense/bias/adam_v"} < set(names)
        assert len(select(checkpoint, ("classifier",)).names) == 39 + 2
        assert len(select(checkpoint, ()).names) == 39

    @pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "adapter/kernel", "cls/predictions/extra"])
    def test_what_the_head_has_beside_its_weights_is_refused(self, write, name):
        checkpoint = select(write(**{name: (40, 8)}), ("masked_lm",))
        with pytest.raises(ValueError, match=re.escape(f"has 1 weights that the model lacks: {name};")):
            run_network(Contents(checkpoint, ("masked_lm",), make_config()))

    def test_what_belongs_to_nothing_is_refused_for_the_encoder_alone_too(self, write):
        checkpoint = select(write(output_extra=3), ())
        with pytest.raises(ValueError, match="has 1 weights that the model lacks: output_extra;"):
            run_network(Contents(checkpoint, (), make_config()))

    def test_the_untied_projection_goes_with_the_head_of_masked_words(self, write):
        checkpoint = write(**{"cls.predictions.decoder.weight": (40, 8)})
        assert len(select(checkpoint, ("next_sentence",)).names) == 39 + 2
        assert len(select(checkpoint, ("masked_lm",)).names) == 39 + 5 + 1


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
            run_network(Contents(select(checkpoint, (head,)), (head,), make_config()))

    @pytest.mark.parametrize(("head", "num_classes"), [("classifier", 3), ("classifier", 1), ("squad", 2)])
    def test_a_head_of_its_shapes_is_run(self, write, head, num_classes):
        beginning = LINEAR_HEADS[head][0]
        checkpoint = write(**{f"{beginning}weights": (num_classes, 8), f"{beginning}bias": (num_classes,)})
        outputs = run_network(Contents(select(checkpoint, (head,)), (head,), make_config()))
        assert outputs[head].shape[-1] == num_classes
