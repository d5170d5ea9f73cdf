"""The memory of loading, measured from outside, is far less than a second copy of the weights."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHILD = """
import re
import sys

from bert_keras.modeling import BertConfig, PretrainingModel, load_weights
from bert_keras.modeling import save_checkpoint, save_safetensors, weights_by_name


def kilobytes(key):
    with open("/proc/self/status") as status:
        return int(re.search(rf"{key}:\\s+(\\d+)", status.read())[1])


config = BertConfig(500, hidden_size=256, num_hidden_layers=16, num_attention_heads=4, intermediate_size=1024)
weights = weights_by_name(PretrainingModel(config))
size = sum(4 * weight.numpy().size for weight in weights.values()) / 1024
for path in (save_checkpoint(sys.argv[1] + "/model.ckpt", weights), save_safetensors(sys.argv[1], weights, config)):
    load_weights(weights, path)  # imports and caches are not what is measured
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")  # makes the highest value so far the present one
    before = kilobytes("VmRSS")
    load_weights(weights, path)
    print((kilobytes("VmHWM") - before) / size)
"""


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/clear_refs").exists(), reason="measured as only Linux can")
def test_loading_holds_a_few_tensors_at_a_time(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shares = [float(line) for line in done.stdout.split()]
    assert len(shares) == 2
    # 50 MB of weights; the largest has 1 MB.
    assert max(shares) < 0.3
