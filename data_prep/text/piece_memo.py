"""The memory that makes the tokenizer fast: what became of the pieces of text seen of late."""

from collections.abc import Callable


class PieceMemo(dict):
    """Remembers what a function gave for the pieces of text seen of late; looking up a new piece calls the function.

    Two generations of at most `max_pieces` each: when the young one is full it becomes the old one, the older one is
    forgotten, and old pieces that are met again become young. So frequent pieces stay and memory is bounded.
    Pieces of over 32 characters and those of over 16 results are worked out each time they come.
    It may be shared by threads: at worst a piece is worked out twice.

    Args:
        function: gives a tuple for a piece; the same one whenever it is called.
        max_pieces: of a generation.
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
