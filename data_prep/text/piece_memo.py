"""Cache that makes the tokenizer fast: results for recent parts of text."""

from collections.abc import Callable


class PieceMemo(dict):
    """Cache of a function's results for parts of text; a lookup of a new part calls the function.

    The cache has two generations of at most `max_pieces` parts. When the young generation is full, it replaces the old
    one. A hit in the old generation copies the part to the young one. So frequent parts stay and memory is bounded.
    Parts over 32 characters or 16 results are not cached. Threads may share the cache: at worst, two compute the same
    part.

    Args:
        function: returns a tuple for a part; must be deterministic.
        max_pieces: maximum number of parts in a generation.
    """

    max_chars = 32
    max_results = 16

    def __init__(self, function: Callable[[str], tuple], max_pieces: int):
        super().__init__()
        self.max_pieces = max_pieces
        self._function = function
        self._old = {}

    def __missing__(self, piece: str) -> tuple:
        results = self._old.get(piece)
        if results is None:
            results = self._function(piece)
            if len(piece) > self.max_chars or len(results) > self.max_results:
                return results
        if len(self) >= self.max_pieces:
            self._old = dict(self)
            self.clear()
        self[piece] = results
        return results
