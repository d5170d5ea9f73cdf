"""The network: what BERT is, as Keras layers that run on every backend."""

from modeling.bert import BertModel
from modeling.checkpoint import LoadReport, load_weights, open_checkpoint, save_checkpoint, weights_by_name
from modeling.config import BertConfig
from modeling.optimization import AdamWeightDecay, LearningRateSchedule, clip_by_global_norm
from modeling.tasks import PretrainingModel, PretrainingTask

__all__ = [
    "AdamWeightDecay",
    "BertConfig",
    "BertModel",
    "LearningRateSchedule",
    "LoadReport",
    "PretrainingModel",
    "PretrainingTask",
    "clip_by_global_norm",
    "load_weights",
    "open_checkpoint",
    "save_checkpoint",
    "weights_by_name",
]
