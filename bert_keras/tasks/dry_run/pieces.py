"""The lengths of texts in word pieces, if the vocabulary of the model is on this machine."""

import os
from collections.abc import Sequence

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import files_of_vocabulary, find_casing
from bert_keras.mistakes import Message
from bert_keras.settings.model_files import ModelSettings
from bert_keras.storage.tokenizer.vocabulary import vocabulary_in
from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.statistics import spread

_CHARACTERS = 500_000  # of a sample, which takes a fraction of a second


def open_tokenizer(settings: ModelSettings, init_checkpoint: str | None) -> FullTokenizer | None:
    """Returns the tokenizer of the vocabulary that settings name; None if it is not in a folder of this machine."""
    vocab_file = settings.vocab_file
    if not vocab_file and init_checkpoint and os.path.isdir(init_checkpoint):
        vocab_file = vocabulary_in(init_checkpoint)
    if not vocab_file or not os.path.isfile(vocab_file):
        return None
    casing = find_casing(files_of_vocabulary(vocab_file), vocab_file, settings.do_lower_case, settings.strip_accents)
    return FullTokenizer(vocab_file, *casing[:2])


def add_pieces(
    found: Findings, texts: Sequence[Sequence[str]], tokenizer: FullTokenizer | None, max_seq_length: int
) -> None:
    """Adds the lengths of texts, or pairs, in word pieces, and how many of them do not fit; of many, from a sample."""
    if tokenizer is None or not texts:
        return
    mean = sum(len(text) for example_texts in texts for text in example_texts) / len(texts)
    sample = texts[:: max(1, round(len(texts) * mean / _CHARACTERS))]
    counts = [sum(len(tokenizer.tokenize(text)) for text in example_texts) for example_texts in sample]
    room = max_seq_length - 1 - len(sample[0])  # [CLS], and [SEP] after each text
    sample_note = f", of {len(sample):,} texts" if len(sample) < len(texts) else ""
    share = sum(count > room for count in counts) / len(counts)
    fit = f"{100 * share:.1f} % have more than the {room:,} that fit" if share else f"all fit, with up to {room:,},"
    text = "{}{}; {} into {max_seq_length}={}"
    found.add("word pieces", Message(text, spread(counts), sample_note, fit, max_seq_length))
