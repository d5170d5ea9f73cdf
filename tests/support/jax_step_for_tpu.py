"""Compiles the step of JAX for four cores of a TPU v5e, which need not exist; prints the sums that they exchange."""

import os
import re

os.environ.update(
    ALLOW_MULTIPLE_LIBTPU_LOAD="1",  # another test may compile at the same time
    TPU_SKIP_MDS_QUERY="1",  # or libtpu would look for these values on the network
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_WORKER_ID="0",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
    TPU_TOPOLOGY="2x2",
)

import jax
import libtpu  # noqa: F401  (tells JAX where its library is)
import numpy as np
from jax.experimental import topologies
from tiny_bert import make_config, make_features

from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule, PretrainingLoss, PretrainingModel
from bert_keras.modeling.layers import dtype_policy
from bert_keras.training.on_jax.devices import JaxDevices
from bert_keras.training.on_jax.step import JaxTrainer

NUM_PARTS = 2


def main():
    config = make_config(num_hidden_layers=1)
    with dtype_policy("mixed_bfloat16"):
        loss = PretrainingLoss(PretrainingModel(config))
    devices = JaxDevices(topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices)
    trainer = JaxTrainer(loss, AdamWeightDecay(LearningRateSchedule(1e-3, 10, 0)), devices, 1, NUM_PARTS)
    trainer._has_gradient = [*trainer._weights]

    def whole(shape=(), dtype=np.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=devices.whole)

    groups = trainer._weights, trainer._m, trainer._v, trainer._averages
    state = [{name: whole(tuple(variable.shape)) for name, variable in group.items()} for group in groups]
    sums = {name: whole() for name in loss.metric_names}
    totals = {"numerators": sums, "denominators": sums, "loss": whole(), "gradient_norm": whole()}
    features = {
        name: jax.ShapeDtypeStruct(
            (NUM_PARTS, len(values) // NUM_PARTS, *values.shape[1:]), values.dtype, sharding=devices._rows_of_parts
        )
        for name, values in make_features(config, batch_size=16, num_tokens=8).items()
    }
    seeds = whole((NUM_PARTS, 2), np.uint32)
    compiled = trainer._step.lower(state, totals, {}, features, seeds, whole((), np.int32)).compile()
    memory = compiled.memory_analysis()
    num_bytes = 3 * sum(4 * np.prod(weight.shape) for weight in trainer._weights.values())
    assert memory.alias_size_in_bytes >= num_bytes, memory  # weights and slots are written over
    print(len(re.findall(r" all-reduce(?:-start)?\(", compiled.as_text())))


if __name__ == "__main__":
    main()
