"""What the three tasks have in common: prepare every text, then answer group by group, in order."""

from collections.abc import Iterator, Sequence

from prediction.model_files import open_model_files
from prediction.network import Network
from prediction.sequences import LONG_CHOICES

# So many batches are prepared at a time: enough to fill the batches of every length, and little to keep.
_BATCHES_A_GROUP = 32


class Predictor:
    """A model that has been loaded for one task. Its methods may be called any number of times.

    Args:
        path: a checkpoint: its folder, its prefix, one of its files, or the folder of a run.
        batch_size: how many sequences are looked at together, at most.
        long: what to do with a text that is longer than the model takes: "error", "truncate" or "window".
        vocab_file: the vocabulary; None: the vocab.txt beside the checkpoint.
        config_file: the config; None: the one beside the checkpoint.
        do_lower_case: whether text is lower-cased; None: as in the model's training where its folder says so, else as
            its vocabulary looks. Either is said in the log.

    Raises:
        FileNotFoundError: a part of the model is not there.
        ValueError: the parts do not fit, the model lacks the task's head, or an argument cannot be.
    """

    head = ""
    num_special_tokens = 2

    def __init__(self, path, batch_size=16, long="error", vocab_file=None, config_file=None, do_lower_case=None):
        if long not in LONG_CHOICES:
            raise ValueError(f'long is "{long}", but must be one of {", ".join(LONG_CHOICES)}')
        files = open_model_files(path, vocab_file, config_file, do_lower_case)
        self.long = long
        self.config = files.config
        self.tokenizer = files.tokenizer
        self.network = Network(files, self.head, self._read_out, batch_size)
        self.room = files.longest - self.num_special_tokens
        if self.room < self.num_special_tokens - 1:
            raise ValueError(
                f"the model takes {files.longest} pieces, too few to have text between the "
                f"{self.num_special_tokens} special ones of this task"
            )

    @property
    def num_traces(self) -> int:
        """How often the network has been traced: once for each padded length that has been needed."""
        return self.network.num_traces

    def answers(self, texts: Sequence, sources: Sequence[str] | None = None) -> Iterator:
        """Gives the answer to each text, in order; all are checked before the first is answered.

        Args:
            texts: what the task takes, any number.
            sources: what to call each of them in an error, as "reviews.txt line 7".

        Raises:
            ValueError: a text cannot be answered.
        """
        if sources is None:
            sources = [f"text {number}" for number in range(1, len(texts) + 1)]
        encoded = [self._encode(text, source) for text, source in zip(texts, sources, strict=True)]
        group, num_questions = [], 0
        for text, ids in zip(texts, encoded, strict=True):
            group.append((text, ids, self._questions(ids)))
            num_questions += len(group[-1][2])
            if num_questions >= _BATCHES_A_GROUP * self.network.batch_size:
                yield from self._answer_group(group)
                group, num_questions = [], 0
        yield from self._answer_group(group)

    def _answer_group(self, group):
        found = iter(self.network.answer([question for _, _, questions in group for question in questions]))
        for text, ids, questions in group:
            yield self._answer(text, ids, [(question, next(found)) for question in questions])

    def _encode(self, text, source):
        """Returns the ids of a text, checked and cut to what will be looked at."""
        raise NotImplementedError

    def _questions(self, ids):
        """Returns the Questions that a text comes to."""
        raise NotImplementedError

    def _read_out(self, outputs, features):
        """See `Network`."""
        raise NotImplementedError

    def _answer(self, text, ids, found):
        """Puts an answer together from (Question, what was read out for it) pairs."""
        raise NotImplementedError
