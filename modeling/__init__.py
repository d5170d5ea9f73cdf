"""The BERT network, as Keras layers that run on every backend."""

# ruff: noqa: F401 (the public names)

try:
    import keras  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("jax", "openvino", "torch"):
        raise
    raise ImportError(
        f"Keras is set to run on {error.name} (by KERAS_BACKEND or ~/.keras/keras.json), which is not installed; set "
        "KERAS_BACKEND=tensorflow"
    ) from error

from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.files import open_checkpoint
from bert_keras.modeling.checkpoints.hugging_face_config import read_config
from bert_keras.modeling.checkpoints.loading import (
    IncompleteMatchError,
    LoadReport,
    check_config,
    check_sizes,
    load_weights,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.names import HEAD_PATTERNS, POOLER_PATTERNS
from bert_keras.modeling.checkpoints.safetensors_format import save_safetensors
from bert_keras.modeling.checkpoints.tensorflow_format import save_checkpoint
from bert_keras.modeling.checkpoints.vocabulary import check_vocabulary, is_cased, with_vocab_size
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.layers import weights_to_load
from bert_keras.modeling.losses import (
    ClassificationLoss,
    MultiLabelLoss,
    PretrainingLoss,
    RegressionLoss,
    SquadLoss,
    TokenClassificationLoss,
)
from bert_keras.modeling.models import (
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    ReplacedTokenModel,
    SentenceModel,
    SpanBoundaryModel,
    SquadModel,
    TokenClassifierModel,
)
from bert_keras.modeling.objectives.replaced_tokens import ReplacedTokenLoss
from bert_keras.modeling.objectives.span_boundary import SpanBoundaryLoss
from bert_keras.modeling.optimization import AdamWeightDecay, LearningRateSchedule, clip_by_global_norm, layer_of
