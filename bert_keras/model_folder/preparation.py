"""How text is prepared for a model: its casing, and the longest sequence and word."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from bert_keras.data_prep.text.vocabulary_files import (
    TOKENIZER_FILE,
    find_casing,
    read_tokenizer_config,
    tokenizer_config_text,
    tokenizer_file_of,
)
from bert_keras.model_folder.sentence_transformers import lower_cases_first
from bert_keras.modeling import BertConfig, check_vocabulary
from bert_keras.storage import paths
from bert_keras.storage.vocabulary import Tokens

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Preparation:
    """The settings that prepare text for a model.

    Attributes:
        strip_accents: None: the same as do_lower_case.
        longest: maximum number of tokens in a sequence.
        longest_word: maximum number of characters in a word that is split; None: that of the original BERT.
    """

    do_lower_case: bool
    strip_accents: bool | None
    longest: int
    longest_word: int | None = None

    def to_text(self) -> str:
        """Returns a `tokenizer_config.json`, which `find_preparation` and other libraries read."""
        return tokenizer_config_text(*dataclasses.astuple(self))


def find_preparation(
    folder: str,
    tokens: Tokens,
    config: BertConfig,
    trained: Mapping[str, Any],
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
) -> Preparation:
    """Finds and logs how training prepared text, and checks the vocabulary against it.

    `find_casing` finds the casing; every run writes a `tokenizer_config.json` into the checkpoint's folder. Only the
    file of the `tokens` may be outside the folder. `trained` are the settings of the run that made the checkpoint.
    """
    told = read_tokenizer_config(paths.join(folder, TOKENIZER_FILE))
    if not told:  # build_vocab.py writes one next to a vocabulary, which may be in another folder
        told = read_tokenizer_config(tokenizer_file_of(tokens.name))
    if lower_cases_first(folder) and told.get("do_lower_case") is not True:
        kept = {"strip_accents": False} if told.get("strip_accents") is None else {}
        told = told | kept | {"do_lower_case": True, "casing_file": f"the sentence-transformers config in {folder}"}
    do_lower_case, strip_accents, lines = find_casing(told, tokens, do_lower_case, strip_accents)
    check_vocabulary(tokens, config, do_lower_case, strip_accents)
    for line in lines:
        log.info(line)
    return Preparation(do_lower_case, strip_accents, _longest(config, trained, told), tokens.longest_word)


def _longest(config: BertConfig, trained: Mapping[str, Any], told: Mapping[str, Any]) -> int:
    """Returns the maximum length: from the file, or from a training that began with random position embeddings."""
    # Other libraries write a number of thirty digits if the length is unknown.
    longest, reason = told.get("model_max_length"), f"set in {TOKENIZER_FILE}"
    if type(longest) is not int and not trained.get("init_checkpoint"):
        longest, reason = trained.get("max_seq_length"), "as in training"
    num_positions = config.max_position_embeddings
    if type(longest) is not int or longest >= num_positions:
        return num_positions
    message = "sequences have at most %d tokens (%s): the model did not learn positions %d to %d"
    log.info(message, longest, reason, longest + 1, num_positions)
    return longest
