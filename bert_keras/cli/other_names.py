"""The names here of settings of other libraries and of common abbreviations, for messages about unknown names."""

import difflib
from collections.abc import Collection, Container

_OTHER_NAMES = {
    # transformers, its Trainer and its example programs
    "model_name_or_path": "model_dir init_checkpoint input",
    "pretrained_model_name_or_path": "model_dir init_checkpoint input",
    "model_name": "model_dir init_checkpoint input",
    "config_name": "bert_config_file",
    "dataset_name": "tfds",
    "validation_file": "eval_file",
    "test_file": "predict_file",
    "text_column_name": "text_column",
    "label_column_name": "label_column",
    "question_column_name": "text_column",
    "per_device_train_batch_size": "train_batch_size",
    "per_device_eval_batch_size": "eval_batch_size",
    "warmup_ratio": "warmup_proportion",
    "warmup_steps": "num_warmup_steps warmup_proportion",
    "lr_scheduler_type": "learning_rate_schedule",
    "weight_decay": "weight_decay_rate",
    "adam_beta1": "adam_beta_1",
    "adam_beta2": "adam_beta_2",
    "max_grad_norm": "clip_norm",
    "label_smoothing_factor": "label_smoothing",
    "bf16": "precision=bfloat16",
    "fp16": "precision=float16",
    "tf32": "precision=tf32",
    "activation_checkpointing": "recompute",
    "gradient_checkpointing": "recompute",
    "torch_compile": "jit",
    "logging_steps": "log_steps",
    "eval_strategy": "eval_steps",
    "evaluation_strategy": "eval_steps",
    "load_best_model_at_end": "eval_steps",
    "metric_for_best_model": "metric",
    "early_stopping_patience": "early_stopping",
    "save_steps": "save_checkpoints_steps",
    "save_total_limit": "keep_checkpoint_max",
    "full_determinism": "deterministic",
    "group_by_length": "pack",
    "train_sampling_strategy": "pack",
    "mlm_probability": "masked_lm_prob",
    "max_answer_len": "max_answer_length",
    "n_best": "n_best_size",
    # PEFT and sentence-transformers
    "lora_r": "lora_rank",
    "target_modules": "lora_targets",
    "normalize_embeddings": "normalize",
    "pooling_mode": "pooling",
    "num_iterations": "contrastive_epochs",
    # abbreviations
    "lr": "learning_rate",
    "epochs": "num_train_epochs",
    "num_epochs": "num_train_epochs",
    "batch_size": "train_batch_size eval_batch_size",
    "max_length": "max_seq_length",
    "max_len": "max_seq_length",
    "max_seq_len": "max_seq_length",
    "stride": "doc_stride",
    "output": "output_dir output_file export_dir",
    "output_file": "output output_dir export_dir",
    "output_path": "output output_dir output_file export_dir",
    "save_dir": "output_dir export_dir",
    "model": "model_dir init_checkpoint",
    "model_dir": "init_checkpoint",
    "init_checkpoint": "model_dir input",
    "model_path": "model_dir init_checkpoint input",
    "checkpoint": "model_dir init_checkpoint",
    "data": "train_file input_file",
    "input": "input_file train_file",
    "dev_file": "eval_file",
    "val_file": "eval_file",
    "valid_file": "eval_file",
    "target_column": "label_column",
    "test_size": "eval_share",
    "validation_split": "eval_share",
    "class_weight": "class_weights",
    "patience": "early_stopping",
    "frozen_layers": "freeze_layers",
    "ema": "ema_decay",
    "tpu": "use_tpu",
    "vocab": "vocab_file",
    "labels": "class_names",
}


def name_here(name: str, known: Container[str]) -> str | None:
    """Returns what a setting with a foreign name is called, if it is among the `known` names; maybe with a value."""
    name = name.replace("-", "_")
    candidates = [name, *_OTHER_NAMES.get(name, "").split()]
    return next((here for here in candidates if here.partition("=")[0] in known), None)


def names_like(name: str, known: Collection[str]) -> list[str]:
    """Returns up to three of the `known` names that are spelled like a name, or that have it as a part."""
    with_it = [other for other in known if name in other]
    return list(dict.fromkeys([*difflib.get_close_matches(name, known), *with_it]))[:3]
