"""The network: what BERT is, as Keras layers that run on every backend."""

from modeling.bert import BertModel
from modeling.checkpoint import (
    IncompleteMatchError,
    LoadReport,
    check_config,
    load_weights,
    open_checkpoint,
    weights_by_name,
)
from modeling.checkpoint_names import HEAD_PATTERNS, POOLER_PATTERNS
from modeling.config import BertConfig
from modeling.hugging_face_config import read_config
from modeling.layers import weights_to_load
from modeling.models import (
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    SquadModel,
    TokenClassifierModel,
)
from modeling.optimization import AdamWeightDecay, LearningRateSchedule, clip_by_global_norm, layer_of
from modeling.safetensors_checkpoint import save_safetensors
from modeling.tasks import (
    ClassificationTask,
    MultiLabelTask,
    PretrainingTask,
    RegressionTask,
    SquadTask,
    TokenClassificationTask,
)
from modeling.tensorflow_checkpoint import save_checkpoint
from modeling.vocabulary import check_vocabulary, is_cased

__all__ = [
    "AdamWeightDecay",
    "BertConfig",
    "BertModel",
    "ClassificationTask",
    "ClassifierModel",
    "HEAD_PATTERNS",
    "IncompleteMatchError",
    "LearningRateSchedule",
    "LoadReport",
    "MultiLabelTask",
    "MultipleChoiceModel",
    "POOLER_PATTERNS",
    "PretrainingModel",
    "PretrainingTask",
    "RegressionTask",
    "SquadModel",
    "SquadTask",
    "TokenClassificationTask",
    "TokenClassifierModel",
    "check_config",
    "check_vocabulary",
    "clip_by_global_norm",
    "is_cased",
    "layer_of",
    "load_weights",
    "open_checkpoint",
    "read_config",
    "save_checkpoint",
    "save_safetensors",
    "weights_by_name",
    "weights_to_load",
]
