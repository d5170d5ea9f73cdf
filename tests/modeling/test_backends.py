"""The same network on the other backends of Keras, each in a new process, equals the original BERT."""

import every_backend
import numpy as np
import pytest
from other_backends import run_on

from bert_keras.modeling import open_checkpoint, save_safetensors


def results_on(backend, folder, tmp_path):
    """Returns the results of every_backend.py, a dict of arrays."""
    checkpoint = open_checkpoint(folder / "bert_model.ckpt")
    # Safetensors, because only TensorFlow can read the original format.
    weights = {name: checkpoint.read(name) for name in checkpoint.names}
    weights_file = save_safetensors(tmp_path / "weights", weights, checkpoint.config)
    files = [folder / "bert_config.json", folder / "forward.npz", weights_file, tmp_path / "result.npz"]
    run_on(backend, every_backend.__file__, *files)
    return dict(np.load(tmp_path / "result.npz"))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_the_network_equals_the_original_on_another_backend(golden_dir, tmp_path, backend):
    folder = golden_dir / "pretraining_a"
    result = results_on(backend, folder, tmp_path)
    golden = np.load(folder / "forward.npz")
    compared = [name for name in result if f"out/{name}" in golden]
    assert len(compared) == 10
    for name in compared:
        expected = golden[f"out/{name}"].reshape(result[name].shape)
        np.testing.assert_allclose(result[name], expected, rtol=0, atol=1e-5, err_msg=name)
    if backend == "jax":
        distances = np.abs(result["masked_lm_log_probs_in_16_bits"] - result["masked_lm_log_probs"])
        assert 0 < distances.max() < 0.05
    # Other tests compare these numbers of TensorFlow with formulas.
    features = {name: golden[f"in/{name}"] for name in ("input_ids", "input_mask", "segment_ids")}
    checkpoint = open_checkpoint(folder / "bert_model.ckpt")
    for name, expected in every_backend.left_to_right(checkpoint.config, checkpoint, features).items():
        np.testing.assert_allclose(result[name], expected, rtol=0, atol=1e-5, err_msg=name)
    for name, expected in every_backend.losses_and_updates().items():
        np.testing.assert_allclose(result[name], expected, rtol=0, atol=1e-6, err_msg=name)
