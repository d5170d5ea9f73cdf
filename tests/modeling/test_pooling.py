"""The pooler of a config with another `pooling` than "cls", also for packed rows."""

import numpy as np
import pytest
from known_models import randomise, small_config

from bert_keras.modeling import BertConfig, BertModel
from bert_keras.modeling.checkpoints.families import family_of


def model_with(pooling, **changes):
    return randomise(BertModel(small_config(pooling=pooling, pooler_act="unit_length", **changes)))


def expected(model, hidden, pooling):
    vectors = hidden.mean(axis=0) if pooling == "mean" else hidden.max(axis=0)
    values = vectors @ np.asarray(model.pooler.kernel) + np.asarray(model.pooler.bias)
    return values / np.linalg.norm(values)


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("is_decoder", [False, True])
def test_the_pooler_reads_all_tokens_but_not_the_padding(pooling, is_decoder):
    model = model_with(pooling, is_decoder=is_decoder)
    ids = np.array([[2, 5, 7, 3, 0, 0], [2, 6, 8, 9, 5, 3]])
    outputs = model(ids, (ids > 0).astype(np.int32))
    hidden, pooled = np.asarray(outputs["sequence_output"]), np.asarray(outputs["pooled_output"])
    for row, length in enumerate((4, 6)):
        np.testing.assert_allclose(pooled[row], expected(model, hidden[row, :length], pooling), rtol=1e-4, atol=1e-5)
    # Without a mask, all are tokens.
    np.testing.assert_allclose(np.asarray(model(ids[1:])["pooled_output"])[0], pooled[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_each_sequence_of_a_packed_row_has_its_own_vector(pooling):
    model = model_with(pooling)
    first, second = [2, 5, 7, 3], [2, 6, 3]
    packed = model(
        np.array([[*first, *second, 0]]),
        sequence_ids=np.array([[1, 1, 1, 1, 2, 2, 2, 0]]),
        position_ids=np.array([[0, 1, 2, 3, 0, 1, 2, 0]]),
        cls_positions=np.array([[0, 4]]),
    )
    for number, ids in enumerate((first, second)):
        alone = np.asarray(model(np.array([ids]))["pooled_output"])[0]
        np.testing.assert_allclose(np.asarray(packed["pooled_output"])[0, number], alone, rtol=1e-4, atol=1e-5)


def test_files_have_only_another_pooling_and_foreign_layouts_have_none():
    assert "pooling" not in small_config().to_dict()
    config = small_config(pooling="mean", pooler_act="unit_length")
    assert BertConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="pooling mean, pooler_act unit_length in its config"):
        family_of(config)
    with pytest.raises(ValueError, match="pooling is 'sum', but must be one of cls, mean, max"):
        small_config(pooling="sum")
