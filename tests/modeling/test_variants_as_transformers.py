"""DistilBERT, ELECTRA and ALBERT equal those of transformers, in both directions."""

import json
import pathlib

import numpy as np
import pytest
from converted import convert
from foreign_folders import FAMILIES, random_peer
from tiny_bert import make_features, with_random_weights
from tiny_variants import SWITCHES, make_variant

from bert_keras.modeling import (
    BertModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    ReplacedTokenLoss,
    ReplacedTokenModel,
    SquadModel,
    TokenClassifierModel,
    load_weights,
    open_checkpoint,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)

torch = pytest.importorskip("torch", reason="PyTorch, of the extra [peers], is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, of the extra [peers], is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# Class of transformers -> our model, its outputs, and theirs.
MODELS = {
    "Model": (BertModel, {"sequence_output": "last_hidden_state"}),
    "ForMaskedLM": (PretrainingModel, {"masked_lm_logits": "logits"}),
    "ForSequenceClassification": (lambda config: ClassifierModel(config, 3), {"logits": "logits"}),
    "ForTokenClassification": (lambda config: TokenClassifierModel(config, 3), {"logits": "logits"}),
    "ForMultipleChoice": (MultipleChoiceModel, {"logits": "logits"}),
    "ForQuestionAnswering": (SquadModel, {"start_logits": "start_logits", "end_logits": "end_logits"}),
}
CASES = [(model_type, end) for model_type in SWITCHES for end in MODELS]
CASES += [("electra", "ForPreTraining"), ("albert", "ForPreTraining")]
# The weights of our models that these files do not have.
ABSENT = ("bert/pooler/*", "cls/seq_relationship/*")


def our_model(model_type, end, config):
    if end == "ForPreTraining":
        outputs = {"masked_lm_logits": "prediction_logits", "next_sentence_logits": "sop_logits"}
        is_electra = model_type == "electra"
        return (ReplacedTokenModel(config), {"logits": "logits"}) if is_electra else (PretrainingModel(config), outputs)
    make, outputs = MODELS[end]
    return make(config), outputs


def assert_same(ours, theirs, outputs):
    """Compares the outputs for ragged sequences; masked LM at the positions that we score."""
    features = make_features(ours.config)
    inputs = {name: features[name] for name in ours.input_names if name in features}
    if len(ours.input_axes) == 3:
        inputs = {name: np.reshape(values, (2, 2, -1)) for name, values in inputs.items()}
    renamed = {"input_ids": "input_ids", "input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    if theirs.config.model_type == "distilbert":
        del renamed["segment_ids"]
    with torch.no_grad():
        expected = theirs(**{name: torch.tensor(inputs[our].astype(np.int64)) for our, name in renamed.items()})
    found = ours(inputs)
    for our, their in outputs.items():
        needed = expected[their].numpy()
        if our == "masked_lm_logits":
            needed = np.take_along_axis(needed, features["masked_lm_positions"][..., None], axis=1)
        is_token = np.ones(needed.shape, bool)
        if needed.shape[1:2] == features["input_mask"].shape[1:]:
            is_token = np.broadcast_to(
                features["input_mask"].reshape(features["input_mask"].shape + (1,) * (needed.ndim - 2)) > 0,
                needed.shape,
            )
        assert is_token.sum() > 0
        np.testing.assert_allclose(np.asarray(found[our])[is_token], needed[is_token], atol=1e-5, err_msg=our)


@pytest.mark.parametrize(("model_type", "end"), CASES)
def test_we_read_what_transformers_writes(tmp_path, model_type, end):
    num_labels = {"ForMultipleChoice": 1, "ForQuestionAnswering": 2, "ForPreTraining": 2}.get(end, 3)
    peer = random_peer(model_type, end, num_layers=2, scale=0.3, num_labels=num_labels)
    peer.save_pretrained(tmp_path, safe_serialization=True)
    checkpoint = open_checkpoint(tmp_path)
    model, outputs = our_model(model_type, end, checkpoint.config)
    report = load_weights(weights_by_name(model), checkpoint, new_allowed=ABSENT)
    assert report.unused == []
    assert_same(model, peer, outputs)


@pytest.mark.parametrize(("model_type", "end"), CASES)
def test_transformers_reads_what_we_write(tmp_path, model_type, end):
    model, outputs = our_model(model_type, end, make_variant(model_type))
    with_random_weights(model, seed=5)
    weights = weights_by_name(model)
    if end == "ForMaskedLM":
        weights = {name: weight for name, weight in weights.items() if "seq_relationship" not in name}
    save_safetensors(tmp_path, weights, model.config, FAMILIES[model_type] + end)
    peer_class = getattr(transformers, FAMILIES[model_type] + end)
    peer, report = peer_class.from_pretrained(tmp_path, output_loading_info=True)
    assert {kind: set(names) for kind, names in report.items() if names} in ({}, {"unexpected_keys": unexpected(end)})
    assert_same(model, peer.eval(), outputs)
    _check_config(tmp_path, peer)


def unexpected(end):
    """Returns the names that transformers does not use: as for BERT, our pooler in classes of ALBERT without one."""
    has_pooler = end not in ("ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering")
    return set() if has_pooler else {"albert.pooler.weight", "albert.pooler.bias"}


def test_transformers_reads_the_discriminator_of_a_pre_training(tmp_path):
    model = with_random_weights(ReplacedTokenModel(make_variant("electra")), seed=6)
    weights = weights_by_name(model) | ReplacedTokenLoss(model).own_weights
    save_checkpoint(tmp_path / "run" / "model.ckpt-1", weights)
    model.config.to_json_file(tmp_path / "run" / "bert_config.json")
    copy = convert(tmp_path / "run", tmp_path / "copy")
    peer, report = transformers.ElectraForPreTraining.from_pretrained(copy, output_loading_info=True)
    assert not any(report.values())
    assert_same(model, peer.eval(), {"logits": "logits"})


def _check_config(folder, peer):
    """Every key that we write has the same meaning there: a config that transformers writes reads the same."""
    peer.config.save_pretrained(folder / "theirs")
    ours, theirs = (json.loads((pathlib.Path(f) / "config.json").read_text()) for f in (folder, folder / "theirs"))
    shared = set(ours) & set(theirs) - {"transformers_version", "torch_dtype", "dtype"}
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}
