"""The preparation of text for a model: its casing, and the longest sequence and word."""

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from bert_keras.data_prep.text.vocabulary_files import (
    files_of_vocabulary,
    find_casing,
    tokenizer_config_text,
)
from bert_keras.model_folder.sentence_transformers import lower_cases_first
from bert_keras.modeling import BertConfig, check_vocabulary
from bert_keras.storage import paths
from bert_keras.storage.tokenizer.files import TokenizerFiles
from bert_keras.storage.tokenizer.keys import ORIGINAL_RULES, Fact, TextRules
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, Tokens

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Preparation:
    """The settings that prepare text for a model.

    Attributes:
        strip_accents: None: the same as do_lower_case.
        longest: maximum number of tokens in a sequence.
        longest_word: maximum number of characters in a word that is split; None: that of the original BERT.
        rules: how texts become sequences.
    """

    do_lower_case: bool
    strip_accents: bool | None
    longest: int
    longest_word: int | None = None
    rules: TextRules = ORIGINAL_RULES

    def to_text(self) -> str:
        """Returns a `tokenizer_config.json`, which `find_preparation` and other libraries read."""
        return tokenizer_config_text(
            self.do_lower_case, self.strip_accents, self.longest, self.longest_word, self.rules
        )


def find_preparation(
    files: TokenizerFiles,
    tokens: Tokens,
    config: BertConfig,
    trained: Mapping[str, Any],
    do_lower_case: bool | None = None,
    strip_accents: bool | None = None,
    has_modules: bool = True,
) -> Preparation:
    """Finds and logs how training prepared text, and checks the vocabulary against it.

    `find_casing` finds the casing; every run writes a `tokenizer_config.json` into the checkpoint's folder. Only the
    file of the `tokens` may be outside the folder. `trained` are the settings of the run that made the checkpoint.
    """
    files.check()
    if not files.config and not files.casing:  # build_vocab.py writes one next to a vocabulary, maybe elsewhere
        files = files_of_vocabulary(tokens.name)
    # Without a modules.json, no library reads this file.
    if (has_modules or not files.is_foreign) and lower_cases_first(files.folder):
        files.lower_case_first(f"the sentence-transformers config in {files.folder}")
    do_lower_case, strip_accents, lines = find_casing(files, tokens, do_lower_case, strip_accents)
    casing = files.casing.get("do_lower_case")
    # No flag sets the casing of a head of another library.
    casing_file = (casing and casing.file) or (paths.join(files.folder, TOKENIZER_CONFIG) if files.is_foreign else None)
    check_vocabulary(tokens, config, do_lower_case, strip_accents, casing_file)
    for line in lines:
        log.info(line)
    longest, reason = longest_sequence(config, trained, files.longest)
    if longest < (num_positions := config.max_position_embeddings):
        message = "sequences have at most %d tokens (%s): the model did not learn positions %d to %d"
        log.info(message, longest, reason, longest + 1, num_positions)
    return Preparation(do_lower_case, strip_accents, longest, tokens.longest_word, files.rules)


def longest_sequence(config: BertConfig, trained: Mapping[str, Any], stored_length: Fact | None) -> tuple[int, str]:
    """Returns the maximum length and its reason: the file, or a training that began with random position embeddings."""
    num_positions = config.max_position_embeddings
    longest, reason = (stored_length.value, stored_length.source) if stored_length else (None, "as in training")
    if longest is None and not trained.get("init_checkpoint"):
        longest = trained.get("max_seq_length")
    if type(longest) is not int or longest >= num_positions:
        return num_positions, "all positions"
    return longest, reason
