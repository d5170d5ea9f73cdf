"""What to remove from raw text before examples are built, and which documents to hold out; by default nothing."""

import dataclasses
import logging
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bert_keras.data_prep.cleaning.near_duplicates import hash_text, mix, words_of

log = logging.getLogger("bert_keras")

NORMALIZATIONS = ("none", "NFC", "NFKC")
DUPLICATES = ("none", "exact", "near")
_FEWEST_LETTERS = 0.5  # share of a document's letters in the kept scripts
_CHARACTERS_OF_LANGUAGE = 2000  # of the start of a document; more change the answer rarely, and take time
_REMOVED = {
    "repeated_lines": "repeated lines",
    "short": "documents with too few words",
    "other_scripts": "documents in other scripts",
    "other_languages": "documents in other languages",
    "exact_duplicates": "exact duplicates",
    "near_duplicates": "near duplicates",
}


@dataclasses.dataclass(frozen=True)
class Cleaning:
    """Filters of raw text, in the order of their use, and the share to hold out.

    Attributes:
        unicode_normalization: "none", "NFC" or "NFKC".
        drop_repeated_lines: lines that occur in at least so many different documents are removed; 0: none.
        min_document_words: documents with fewer words are removed.
        keep_scripts: names of Unicode scripts with commas between them, such as "Latin". Documents with less than half
            of their letters in them are removed. None: all scripts stay.
        keep_languages: ISO 639 codes of languages with commas between them, such as "en,de". Documents in others are
            removed; py3langid finds the language. None: all languages stay.
        remove_duplicates: "none"; "exact": later documents with an equal text, apart from case and white space; "near":
            also later documents whose word 5-grams are similar.
        duplicate_threshold: Jaccard similarity of near duplicates.
        eval_share: share of the documents to hold out, from 0 to below 1.
        random_seed: seed of the held-out share.

    Raises:
        ValueError: an invalid value.
    """

    unicode_normalization: str = "none"
    drop_repeated_lines: int = 0
    min_document_words: int = 0
    keep_scripts: str | None = None
    keep_languages: str | None = None
    remove_duplicates: str = "none"
    duplicate_threshold: float = 0.8
    eval_share: float = 0.0
    random_seed: int = 12345

    def __post_init__(self):
        for name, known in (("unicode_normalization", NORMALIZATIONS), ("remove_duplicates", DUPLICATES)):
            if getattr(self, name) not in known:
                raise ValueError(f"--{name}={getattr(self, name)} is not known; give one of {', '.join(known)}")
        if self.drop_repeated_lines < 0 or self.drop_repeated_lines == 1:
            raise ValueError(
                f"--drop_repeated_lines={self.drop_repeated_lines} would remove every line; give the number of "
                "documents from which a line counts as repeated, 2 or more, or 0 to keep all"
            )
        if self.min_document_words < 0:
            raise ValueError(f"--min_document_words={self.min_document_words} is negative; give 0 or more")
        if not 0.3 <= self.duplicate_threshold <= 1:
            raise ValueError(
                f"--duplicate_threshold={self.duplicate_threshold} is not a similarity from 0.3 to 1; 0.8 is usual"
            )
        if self.duplicate_threshold != 0.8 and self.remove_duplicates != "near":
            raise ValueError("--duplicate_threshold is for near duplicates; also give --remove_duplicates=near")
        if not 0 <= self.eval_share < 1:
            raise ValueError(f"--eval_share={self.eval_share} is not a share; give a number from 0 to below 1")
        unknown = sorted(set(self.scripts) - _known_scripts()) if self.keep_scripts is not None else []
        if unknown or (self.keep_scripts is not None and not self.scripts):
            raise ValueError(
                f"--keep_scripts={self.keep_scripts}: {', '.join(unknown) or 'no name'} is not a script that Python "
                "knows; give names such as Latin, Cyrillic, Greek, Arabic, Devanagari, CJK, Hiragana, Katakana, Hangul"
            )
        if self.keep_languages is not None:
            known = _language_finder().labels
            unknown = sorted(set(self.languages) - set(known))
            if unknown or not self.languages:
                raise ValueError(
                    f"--keep_languages={self.keep_languages}: {', '.join(unknown) or 'no name'} is not a language that "
                    f"py3langid knows; give codes of these: {', '.join(sorted(known))}"
                )

    @property
    def scripts(self) -> tuple[str, ...]:
        """The names of the scripts to keep, in capitals."""
        return tuple(name.strip().upper() for name in (self.keep_scripts or "").split(",") if name.strip())

    @property
    def languages(self) -> tuple[str, ...]:
        """The codes of the languages to keep."""
        return tuple(code.strip().lower() for code in (self.keep_languages or "").split(",") if code.strip())

    @property
    def is_needed(self) -> bool:
        """bool; whether the text changes or has a held-out share."""
        return self.changes != {}

    @property
    def changes(self) -> dict:
        """The settings that differ from the defaults, for the metadata; the seed is with those of the examples."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name != "random_seed" and getattr(self, field.name) != field.default
        }

    def normalize(self, line: str) -> str:
        """Returns a line in the chosen normal form."""
        if self.unicode_normalization == "none":
            return line
        form = "NFC" if self.unicode_normalization == "NFC" else "NFKC"
        return " ".join(unicodedata.normalize(form, line).split())

    def reason_to_remove(self, lines: list[str]) -> str | None:
        """Returns the name of the first filter that removes a document by its own text, or None."""
        if not lines:
            return "repeated_lines"
        if self.min_document_words and sum(len(words_of(line)) for line in lines) < self.min_document_words:
            return "short"
        if self.keep_scripts is not None and share_of_scripts(lines, self.scripts) < _FEWEST_LETTERS:
            return "other_scripts"
        if self.keep_languages is not None and language_of(lines) not in self.languages:
            return "other_languages"
        return None

    def is_held_out(self, hashes: np.ndarray) -> np.ndarray:
        """Returns which documents to hold out, bool [documents], from the uint64 hashes of their texts."""
        seed = mix(np.array([self.random_seed % (1 << 64)], np.uint64))
        return mix(hashes ^ seed).astype(np.float64) < self.eval_share * 2.0**64


NO_CLEANING = Cleaning()


def check_eval(cleaning: Cleaning, eval_files: Sequence[str]) -> None:
    """Raises ValueError if only one of the held-out share and its files is given."""
    if bool(cleaning.eval_share) != bool(eval_files):
        given, missing = (
            ("--eval_share", "--eval_output_file")
            if cleaning.eval_share
            else (
                "--eval_output_file",
                "--eval_share, for example 0.02",
            )
        )
        raise ValueError(f"{given} is given alone, but holding out text needs both; also give {missing}")


def comparable(text: str) -> str:
    """Returns what must be equal in equal texts: NFKC, case folded, one space for all white space."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def hash_of(lines: Iterable[str]) -> int:
    """Returns 64 bits of the hash of a document or line; the ends of lines do not matter."""
    return hash_text(comparable(" ".join(lines)))


def share_of_scripts(lines: Iterable[str], scripts: tuple[str, ...]) -> float:
    """Returns the share of the letters that are in the scripts; 0 without letters."""
    found = [script for line in lines for script in map(_script_of, line) if script]
    return sum(script in scripts for script in found) / max(1, len(found))


@lru_cache(maxsize=1 << 16)
def _script_of(character: str) -> str:
    """Returns the first word of a letter's Unicode name, which is its script; "" for other characters."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


@lru_cache(maxsize=1)
def _known_scripts() -> frozenset[str]:
    return frozenset(filter(None, (_script_of(chr(code)) for code in range(0x20000))))


def language_of(lines: Iterable[str]) -> str | None:
    """Returns the ISO 639 code of the language of a document, from its start; None without letters."""
    text = " ".join(lines)[:_CHARACTERS_OF_LANGUAGE]
    return _language_finder().classify(text)[0] if any(map(str.isalpha, text)) else None


@lru_cache(maxsize=1)
def _language_finder() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier  # pyright: ignore[reportMissingImports] (an extra)
    except ImportError:
        raise ValueError(
            "--keep_languages needs py3langid, which is not installed; run pip install 'bert-keras[languages]'"
        ) from None
    return LanguageIdentifier.from_model_file(MODEL_FILE)


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
