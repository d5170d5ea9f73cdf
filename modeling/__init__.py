"""The BERT network, as Keras layers that run on every backend."""

from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.hugging_face_config import read_config
from bert_keras.modeling.checkpoints.loading import (
    IncompleteMatchError,
    LoadReport,
    check_config,
    load_weights,
    open_checkpoint,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.names import HEAD_PATTERNS, POOLER_PATTERNS
from bert_keras.modeling.checkpoints.safetensors_format import save_safetensors
from bert_keras.modeling.checkpoints.tensorflow_format import save_checkpoint
from bert_keras.modeling.checkpoints.vocabulary import check_vocabulary, is_cased
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.layers import weights_to_load
from bert_keras.modeling.models import (
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    SquadModel,
    TokenClassifierModel,
)
from bert_keras.modeling.optimization import AdamWeightDecay, LearningRateSchedule, clip_by_global_norm, layer_of
from bert_keras.modeling.tasks import (
    ClassificationTask,
    MultiLabelTask,
    PretrainingTask,
    RegressionTask,
    SquadTask,
    TokenClassificationTask,
)

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
