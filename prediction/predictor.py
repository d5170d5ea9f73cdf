"""What all tasks have in common: check every text, then ask group by group and answer in order."""

from collections.abc import Iterator, Sequence

# So many batches of questions are prepared at a time, whatever texts they are of: enough to fill the batches of every
# length, and little to keep.
_BATCHES_A_GROUP = 32


class Predictor:
    """A model that has been loaded for one task. Its methods may be called any number of times.

    Attributes:
        network: the Network that answers, made by the constructor of each class.
    """

    network = None

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
        encoded = self._encode_all(texts, sources)
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

    def _encode_all(self, texts, sources):
        """Returns what `_encode` gives for each text; a place to say something of all of them."""
        return [self._encode(text, source) for text, source in zip(texts, sources, strict=True)]

    def _encode(self, text, source):
        """Returns a text as `_questions` takes it, as its ids, checked and cut to what will be looked at."""
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
