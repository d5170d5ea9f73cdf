"""Reads and checks what a pre-training run is given: its config, its records and its vocabulary."""

import contextlib
import logging

from bert_keras.data_prep.records.reading import (
    PretrainingRecords,
    check_same_vocabulary,
    open_records,
    vocabulary_size_of,
)
from bert_keras.data_prep.text.tokenization import load_vocab
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.preparation import longest_sequence
from bert_keras.modeling import BertConfig, check_config, check_sizes, check_vocabulary, with_vocab_size
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.checkpoints.hugging_face_config import given_config
from bert_keras.modeling.objectives.replaced_tokens import generator_config
from bert_keras.storage import paths
from bert_keras.storage.tokenizer.vocabulary import Tokens, read_tokens, vocabulary_digest
from bert_keras.tasks.pretraining.settings import PretrainingSettings

log = logging.getLogger("bert_keras")


def read_input(
    settings: PretrainingSettings, checkpoint: Checkpoint | None = None
) -> tuple[BertConfig, PretrainingRecords, PretrainingRecords | None]:
    """Reads and checks the config, the records, and those to evaluate on; the config must fit a checkpoint."""
    # The run needs one of both.
    name = settings.bert_config_file or settings.init_checkpoint or ""
    config = given_config(name) if settings.bert_config_file else ModelFolder(name).config
    if settings.max_seq_length > config.max_position_embeddings:
        raise Mistake(
            "{max_seq_length}={} is more than the {} positions of {}; build shorter records, or use a config "
            "with more max_position_embeddings",
            settings.max_seq_length,
            config.max_position_embeddings,
            name,
        )
    input_file = settings.input_file or settings.eval_file or ""
    tokens = read_tokens(settings.vocab_file) if settings.vocab_file else None
    if not settings.init_checkpoint and (vocabulary := vocabulary_size_of(input_file) or tokens):
        config = with_vocab_size(config, vocabulary, settings.vocab_file or input_file)
    if checkpoint is not None:
        check_config(config, checkpoint)
        if not settings.allow_partial_checkpoint:
            check_sizes(config, checkpoint)
    lengths = (settings.max_seq_length, settings.max_predictions_per_seq, config.vocab_size)
    records = open_records(input_file, *lengths)
    eval_records = open_records(settings.eval_file, *lengths) if settings.eval_file else None
    if eval_records:
        check_same_vocabulary(records.files[0], records.metadata, eval_records.files[0], eval_records.metadata)
        trained = {*map(paths.file_id, records.files)}
        seen = sorted(file for file in eval_records.files if paths.file_id(file) in trained)
        if seen and settings.input_file:
            log.warning("%s is also training data; its metrics say little about other text", ", ".join(seen))
    if tokens:
        _check_vocabulary(tokens, config, records)
    elif model := settings.init_checkpoint or (None if settings.do_train else settings.output_dir):
        _check_vocabulary_of(model, records)
    if config.is_decoder and settings.objective != "masked_lm":
        raise Mistake(
            "{} has is_decoder, but {objective}={} needs a model that sees all tokens; leave one of the two out",
            name,
            settings.objective,
        )
    if settings.objective == "masked_lm" and settings.next_sentence_loss_weight:
        _check_sentence_task(records, eval_records or records)
    if settings.objective == "span_boundary":
        _check_spans(records, eval_records)
    if settings.objective == "electra":
        _check_generator(settings, config)
    elif not settings.masked_lm_loss_weight and not (records.has_sentence_task and settings.next_sentence_loss_weight):
        reason = "{next_sentence_loss_weight}=0" if records.has_sentence_task else "records without a sentence task"
        raise Mistake("{masked_lm_loss_weight}=0 and " + reason + " leave nothing to learn; give a weight above 0")
    return config, records, eval_records


def _check_sentence_task(records: PretrainingRecords, eval_records: PretrainingRecords) -> None:
    """Refuses records whose labels differ in meaning, and warns if only some have labels."""
    files = [*{**records.sentence_tasks, **eval_records.sentence_tasks}.values()]
    if len(files) > 1:
        raise Mistake("{} and {} were built with different {sentence_task}; build them with the same", *files[:2])
    if records.has_sentence_task != eval_records.has_sentence_task:
        without = Setting("eval_file" if records.has_sentence_task else "input_file")
        message = (
            "the records of {} have no sentence task, so next_sentence_loss and next_sentence_accuracy say nothing"
        )
        log.warning(Message(message, without))


def _check_spans(*all_records: PretrainingRecords | None) -> None:
    """Refuses records without masked spans in single segments, which --objective=span_boundary needs."""
    for records in filter(None, all_records):
        if not records.has_spans:
            raise Mistake(
                "{}: not all were built with {masked_spans} and {sentence_task}=none, which "
                "{objective}=span_boundary needs; build them with {masked_spans}=geometric "
                "{sentence_task}=none, and keep the .json files with them",
                records.files,
            )


def _check_vocabulary_of(model: str, records: PretrainingRecords) -> None:
    """Refuses records whose ids are other tokens than those of a model, if both tell their vocabulary."""
    vocab_file = _vocabulary_file_of(model)
    if vocab_file and "vocab_sha256" in records.metadata and not _is_of(records, vocab_file):
        raise Mistake(
            "{} was built with another vocabulary than {}, the model's, so its ids are other tokens; build it "
            "with that one, or give its own as {vocab_file} to use it from now on",
            records.files[0],
            vocab_file,
        )


def vocabulary_file(settings: PretrainingSettings, records: PretrainingRecords) -> str | None:
    """Returns the vocabulary of the records: the given one, or one that has their tokens; None without any."""
    if settings.vocab_file:
        return settings.vocab_file
    found = records.metadata.get("settings", {}).get("vocab_file"), _vocabulary_file_of(settings.init_checkpoint)
    file = None
    with contextlib.suppress(Mistake):  # nobody gave the file, and the run does not need it
        file = next((file for file in found if file and paths.is_file(file) and _is_of(records, file)), None)
    if file:
        log.info(Message("{vocab_file}={}, which has the tokens of the records", file))
    return file


def longest_learned(settings: PretrainingSettings, config: BertConfig) -> int:
    """Returns the number of positions that a model has learned after a run: those of its start, too."""
    if not settings.init_checkpoint:
        return settings.max_seq_length
    start = ModelFolder(settings.init_checkpoint)
    start_length, _ = longest_sequence(config, start.settings_of_run, start.tokenizer_files.longest)
    return max(start_length, settings.max_seq_length)


def _vocabulary_file_of(model: str | None) -> str | None:
    """Returns the vocabulary of a model; None without any: a model of the original BERT may be only a checkpoint."""
    try:
        return ModelFolder(model).vocab_file if model else None
    except (FileNotFoundError, Mistake):
        return None


def _is_of(records: PretrainingRecords, vocab_file: str) -> bool:
    """Returns whether the ids of records are the tokens of a file."""
    tokens = read_tokens(vocab_file)
    digests = {vocabulary_digest(load_vocab(tokens))}
    while tokens and not tokens[-1]:  # blank lines, for rows of the model without tokens
        tokens.pop()
    digests.add(vocabulary_digest(load_vocab(tokens)))
    return records.metadata.get("vocab_sha256") in digests


def _check_generator(settings: PretrainingSettings, config: BertConfig) -> None:
    """Refuses settings with which a generator and a discriminator cannot be trained."""
    if not settings.masked_lm_loss_weight and not settings.replaced_token_loss_weight:
        raise Mistake(
            "{masked_lm_loss_weight}=0 and {replaced_token_loss_weight}=0 leave nothing to learn; give a weight above 0"
        )
    try:
        generator = generator_config(config, settings.generator_size)
    except Mistake as error:
        raise Mistake("{generator_size}: {}; give another size, such as 0.25", error) from None
    log.info(
        "generator: %d layers, width %d, %d attention heads",
        generator.num_hidden_layers,
        generator.hidden_size,
        generator.num_attention_heads,
    )


def _check_vocabulary(tokens: Tokens, config: BertConfig, records: PretrainingRecords) -> None:
    digest = vocabulary_digest(load_vocab(tokens))
    if records.metadata.get("vocab_sha256", digest) != digest:
        raise Mistake(
            "{vocab_file}={} is not the vocabulary that the records of {input_file} were built with; give "
            "that one, or build them again",
            tokens.name,
        )
    check_vocabulary(tokens, config, records.metadata.get("do_lower_case"))
