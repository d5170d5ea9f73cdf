"""The settings of pre-training."""

import dataclasses
from collections.abc import Iterator

from bert_keras.mistakes import Message
from bert_keras.settings.effects import ON
from bert_keras.settings.fields import free, setting
from bert_keras.settings.groups import SOFT_LOSS, TAUGHT, DistillationSettings, RunSettings
from bert_keras.settings.numbers import NumberParser

_ELECTRA = {"objective": "electra"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingSettings(DistillationSettings, RunSettings):
    """The settings of run_pretraining.py."""

    title = "Pre-training"
    usage = """
    Pre-trains BERT with masked LM and next sentence prediction on record files of examples.

        python data_prep/create_pretraining_data.py --input_file=text.txt --vocab_file=vocab.txt \\
            --output_file=train.tfrecord
        python run_pretraining.py --do_train --do_eval --bert_config_file=bert_config.json --output_dir=model \\
            --input_file=train.tfrecord --eval_file=held_out.tfrecord

    Without any flag, the program runs a demo from text to model in about two minutes. To resume an interrupted run, run
    the same command again. The flags of the original BERT keep their names, defaults and meaning.
    """

    bert_config_file: str | None = free(
        "Config of the model: a file, or the name of a released model. If not given: the config next to "
        "{init_checkpoint}.",
        None,
    )
    input_file: str | None = free("Records to train on: paths and patterns, separated by commas.", None)
    eval_file: str | None = free("Records to evaluate on, instead of those of {input_file}.", None)
    vocab_file: str | None = free(
        "Vocabulary of the records; it is copied to {output_dir}. If not given: the one that the records name, or that "
        "of {init_checkpoint}, if it is the same.",
        None,
    )
    init_checkpoint: str | None = setting("Weights to start from: checkpoint, its folder, or hf://owner/name.", None)
    allow_partial_checkpoint: bool = free(
        "Accept an {init_checkpoint} that lacks weights of the model.", False, needs={"init_checkpoint": ON}
    )
    max_seq_length: int = setting(
        "Number of tokens in a record; the program refuses other records.", 128, lower_bound=1
    )
    max_predictions_per_seq: int = setting(
        "Masked tokens in a record; the program refuses other records.", 20, lower_bound=1
    )
    do_eval: bool = free("Evaluate, after training if there is any.", False)
    train_batch_size: int = setting("Examples in one update, over all devices.", 32, lower_bound=1)
    eval_batch_size: int = free("Examples in a batch of evaluation.", 8, lower_bound=1)
    learning_rate: float = setting("Highest learning rate.", 5e-5)
    num_train_steps: int = setting("Step at which training ends.", 100000, lower_bound=1)
    num_warmup_steps: int = setting("Steps in which the learning rate rises.", 10000, lower_bound=0)
    eval_steps: int = free(
        "Number of steps between evaluations during training. 0: one evaluation at the end.", 0, lower_bound=0
    )
    max_eval_steps: int = free("Maximum number of batches in an evaluation.", 100, lower_bound=1)
    objective: str = setting(
        "Task to learn. masked_lm: that of BERT. span_boundary: also predict masked spans from the tokens around them. "
        "electra: find the tokens that a small masked LM, the generator, has replaced; the model is the discriminator.",
        "masked_lm",
        choices=("masked_lm", "span_boundary", "electra"),
    )
    masked_lm_loss_weight: float = setting(
        "Factor of the loss of masked LM in the sum of both. 0: train without this loss.", 1.0, parser=NumberParser(0)
    )
    next_sentence_loss_weight: float = setting(
        "Factor of the loss of the sentence task in the sum of both. 0: train without this loss.",
        1.0,
        parser=NumberParser(0),
        needs={"objective": "masked_lm"},
        harmless=0.0,
    )
    generator_size: float = setting(
        "ELECTRA: size of the generator as a share of the model's width, heads and inner width; published: 0.25 for "
        "Small and Large, 0.3333 for Base.",
        0.25,
        parser=NumberParser(0),
        needs=_ELECTRA,
    )
    replaced_token_loss_weight: float = setting(
        "ELECTRA: factor of the discriminator's loss.", 50.0, parser=NumberParser(0), needs=_ELECTRA
    )
    pack: bool = setting("Train on rows that hold several examples each: less padding if examples are short.", False)
    teacher: str | None = free(
        "Pre-trained model that teaches a smaller one: a folder, a checkpoint, or hf://owner/name.",
        None,
        needs={"do_train": True, "objective": "masked_lm"},
    )
    # The weights of DistilBERT; its masked LM has the weight 2.
    soft_loss_weight: float = setting(SOFT_LOSS, 5.0, parser=NumberParser(0), needs=TAUGHT)
    cosine_loss_weight: float = setting(
        "Weight of 1 minus the cosine between the last hidden states of both models. 0: none.",
        1.0,
        parser=NumberParser(0),
        needs=TAUGHT,
    )

    def without_effect(self) -> Iterator[tuple[str, Message]]:
        yield from super().without_effect()
        if self.do_train and not self.do_eval:  # a later command may repeat them
            for name in ("eval_steps", "eval_file"):
                yield name, Message("without {do_eval}; give both, or leave it out")
