"""What the three tasks have in common: check every text, then ask group by group and answer in order."""

from collections.abc import Iterator, Sequence

from prediction.model_files import open_model_files
from prediction.network import Network
from prediction.sequences import LONG_CHOICES

# So many batches of questions are prepared at a time, whatever texts they are of: enough to fill the batches of every
# length, and little to keep.
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
        pending, asked = [], []
        for text, ids in zip(texts, encoded, strict=True):
            found = []
            pending.append((text, ids, found))
            for question in self._questions(ids):
                asked.append((question, found))
                if len(asked) == _BATCHES_A_GROUP * self.network.batch_size:
                    self._ask(asked)
                    asked = []
                    # Of the last text there may be more questions.
                    yield from (self._answer(*text_before) for text_before in pending[:-1])
                    del pending[:-1]
        self._ask(asked)
        yield from (self._answer(*text_before) for text_before in pending)

    def _ask(self, asked):
        """Puts what is read out for each question, and for how many positions, into the list that goes with it."""
        rows = self.network.answer([question for question, _ in asked])
        for (question, found), row in zip(asked, rows, strict=True):
            found.append((len(question.positions), row))

    def _encode(self, text, source):
        """Returns the ids of a text, checked and cut to what will be looked at."""
        raise NotImplementedError

    def _questions(self, ids):
        """Yields the Questions that a text comes to, one at a time: a long text has as many as it has pieces."""
        raise NotImplementedError

    def _read_out(self, outputs, features):
        """See `Network`."""
        raise NotImplementedError

    def _answer(self, text, ids, found):
        """Puts an answer together from (number of positions, what was read out for them) pairs of its questions."""
        raise NotImplementedError
