"""The flags of export_model.py. Imports without TensorFlow."""

import dataclasses

from bert_keras.export.choices import FORMATS, QUANTIZE_CHOICES
from bert_keras.settings.fields import REQUIRED, Settings, setting
from bert_keras.settings.model_files import ModelSettings, OpenFacts
from bert_keras.tasks import abilities
from bert_keras.tasks.vectors import POOLINGS

# Flags for the tasks of pre-trained models. A fine-tuned model stores all of these values.
TASK_SETTINGS = {name: task.settings or {} for name, task in abilities(is_exported=True, is_pretrained=True).items()}
CASING = ("do_lower_case", "strip_accents")
PRETRAINED_SETTINGS = ("vocab_file", "bert_config_file", *CASING, "max_seq_length", "top_k", "pooling", "layer")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Export(Settings, ModelSettings, OpenFacts):
    """The settings of export_model.py: the model, the folder to write, and what is in it."""

    title = "Model and export"

    export_dir: str = setting("Required. Local folder to write; new or empty.", REQUIRED)
    model_dir: str | None = setting("A fine-tuned model: the {output_dir} of its run.", None)
    init_checkpoint: str | None = setting(
        "A pre-trained model: checkpoint, its folder, folder of a run, or hf://owner/name.", None
    )
    task: str | None = setting(
        "Task of a head with several.", None, choices=tuple(TASK_SETTINGS | abilities(is_fine_tuned=True))
    )
    format: tuple[str, ...] = setting(f"One or more of {', '.join(FORMATS)}.", ("saved_model",))
    quantize: str | None = setting(
        "Numbers of the weights. If not given: int8 for web, else float32.", None, choices=QUANTIZE_CHOICES
    )
    eval_file: str | None = setting("Data to measure {quantize} on. If not given: as in the run.", None)
    max_loss: float = setting(
        "Share of its metric that {quantize} may cost, as 0.02; a higher cost ends the export.", 0.05, lower_bound=0
    )
    check_file: str | None = setting("Texts to check the SavedModel with. If not given: built in.", None)
    onnxruntime_web: str | None = setting("web: file of that package. If not given: from npm.", None)
    max_seq_length: int | None = setting("Maximum tokens in a text. If not given: as many as fit.", None, lower_bound=5)
    top_k: int = setting("fill_mask: number of guesses for each mask.", 5, lower_bound=1)
    pooling: str = setting("vectors: how tokens become one.", "mean", choices=POOLINGS)
    layer: str = setting("vectors: 0 for the first layer, -1 for the last, or embeddings.", "-1")
