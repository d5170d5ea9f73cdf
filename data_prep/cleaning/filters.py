"""The settings of cleaning: text to remove before examples are built, and documents to hold out; by default none."""

import dataclasses
import logging
import re
from collections.abc import Sequence

import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import check_fields, setting

log = logging.getLogger("bert_keras")

_SCRIPTS_WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
# In scripts without spaces each character is a word.
_WORDS = re.compile(f"[{_SCRIPTS_WITHOUT_SPACES}]|[^\\s{_SCRIPTS_WITHOUT_SPACES}]+")
_REMOVED = {
    "short": "documents with too few words",
    "exact_duplicates": "exact duplicates",
}


@dataclasses.dataclass(frozen=True)
class Cleaning:
    """Filters of raw text in the order of their use, and the share to hold out.

    Raises ValueError for an invalid value.
    """

    min_document_words: int = setting("Remove documents with fewer words.", 0, lower_bound=0)
    remove_duplicates: str = setting(
        "Remove documents that equal an earlier one; case, white space and invisible characters do not matter.",
        "none",
        choices=("none", "exact"),
    )
    eval_share: float = setting(
        "Share of the documents to hold out. A hash of the text and {random_seed} choose them; {eval_output_file} "
        "gets their examples.",
        0.0,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.eval_share < 1:
            raise Mistake("{eval_share}={} is not a share; give a number from 0 to below 1", self.eval_share)

    @property
    def is_needed(self) -> bool:
        """bool; whether the text changes or has a held-out share."""
        return self.changes != {}

    @property
    def changes(self) -> dict:
        """The settings that differ from the defaults, for the metadata."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {name: value for name, value in vars(self).items() if value != defaults[name]}

    def is_short(self, lines: list[str]) -> bool:
        """Returns whether a document has too few words."""
        num_words = self.min_document_words
        return num_words > 0 and sum(len(_WORDS.findall(line)) for line in lines) < num_words

    def is_held_out(self, hashes: np.ndarray, random_seed: int) -> np.ndarray:
        """Returns which documents to hold out, bool [documents], from the uint64 hashes of their texts."""
        seed = _mix(np.array([random_seed % (1 << 64)], np.uint64))
        return _mix(hashes ^ seed).astype(np.float64) < self.eval_share * 2.0**64


NO_CLEANING = Cleaning()


def check_eval(cleaning: Cleaning, eval_files: Sequence[str]) -> None:
    """Raises ValueError if only one of the held-out share and its files is given."""
    if bool(cleaning.eval_share) != bool(eval_files):
        if eval_files:
            raise Mistake("{eval_output_file} is given without {eval_share}; also give that, for example 0.02")
        raise Mistake("{eval_share} is given without {eval_output_file}, the files of the held-out examples; give both")


def _mix(numbers: np.ndarray) -> np.ndarray:
    """Returns well-mixed uint64 numbers, one for each uint64 (the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def tell_removed(report: dict) -> None:
    """Logs what each filter removed, and warns about one that removed more than half of the characters or documents.

    The report is that of `text_cleaning.clean_texts`.
    """
    before = report["before"]
    for name, what in _REMOVED.items():
        if name not in report:
            continue
        counts = report[name]
        shares = [counts[unit] / max(1, before[unit]) for unit in ("documents", "characters")]
        is_much = max(shares) > 0.5
        log.log(
            logging.WARNING if is_much else logging.INFO,
            "%s: removed %s of %s documents, %s of %s lines, %.2f %% of the characters%s",
            what,
            f"{counts['documents']:,}",
            f"{before['documents']:,}",
            f"{counts['lines']:,}",
            f"{before['lines']:,}",
            100 * shares[1],
            "; this is more than half, so look at the text and at the flag" if is_much else "",
        )
    if "held_out" in report:
        held_out = report["held_out"]
        log.info(
            "held out for evaluation: %s documents, %s lines", f"{held_out['documents']:,}", f"{held_out['lines']:,}"
        )
