"""Statistics of a corpus and of its examples."""

import dataclasses
from collections.abc import Mapping

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.pretraining.instances import Instance


@dataclasses.dataclass
class Summary:
    """Counts of a corpus and of its instances.

    Attributes:
        num_documents, num_sentences, num_tokens, num_unknown: counts of the corpus; tokens are WordPiece tokens.
        num_instances: number of instances.
        num_random_next: number of instances with a random (or exchanged) second segment.
        num_masked, num_real: number of masked tokens and of tokens without padding, over all instances.
    """

    num_documents: int = 0
    num_sentences: int = 0
    num_tokens: int = 0
    num_unknown: int = 0
    num_instances: int = 0
    num_random_next: int = 0
    num_masked: int = 0
    num_real: int = 0

    @classmethod
    def of_documents(cls, documents: Documents, num_unknown: int) -> "Summary":
        """Counts documents, sentences and tokens of a corpus; the caller counts unknown tokens."""
        return cls(len(documents), documents.num_sentences, len(documents.tokens), num_unknown)

    def add(self, instance: Instance) -> None:
        """Counts an instance."""
        self.num_instances += 1
        self.num_random_next += instance.is_random_next
        self.num_masked += len(instance.masked_lm_ids)
        self.num_real += len(instance.tokens)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Adds instance counts from `counts`."""
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)

    def counts(self) -> dict[str, int]:
        """Returns the instance counts by attribute name, for `add_counts`."""
        return {name: getattr(self, name) for name in ("num_instances", "num_random_next", "num_masked", "num_real")}

    def as_dict(self, max_seq_length: int) -> dict:
        """Returns the counts and shares.

        Returns:
            documents, sentences, tokens, instances: int. Shares as float from 0 to 1: random_next_share of the
            instances, masked_share of the tokens without padding, padding_share of all positions, unknown_share of the
            corpus.

        Raises:
            UnusableTextError: the text gives no instances.
        """
        if not self.num_instances:
            raise UnusableTextError(
                "the text gives no examples: its documents have only one token each, so they have no order; "
                "give another text, or another --sentence_task"
            )
        return {
            "documents": self.num_documents,
            "sentences": self.num_sentences,
            "tokens": self.num_tokens,
            "instances": self.num_instances,
            "random_next_share": self.num_random_next / self.num_instances,
            "masked_share": self.num_masked / self.num_real,
            "padding_share": 1 - self.num_real / (self.num_instances * max_seq_length),
            "unknown_share": self.num_unknown / self.num_tokens,
        }
