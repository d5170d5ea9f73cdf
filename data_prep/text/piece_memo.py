"""A cache of results for parts of text."""

from collections.abc import Callable


class PieceMemo(dict):
    """Cache of a function's results for parts of text; threads may share it.

    The cache has two generations of at most `max_pieces` parts. When the young generation is full, it replaces the old
    one, and a hit in the old one copies the part to the young one. So frequent parts stay and memory is bounded.
    """

    max_chars = 32  # longer parts, and parts with more results, are not cached
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
