"""A tokenizer with the rules of another library, and texts for which these rules matter."""

import random

from bert_keras.storage.tokenizer.keys import TextRules

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_WORDS = ("a", "b", "##a", "##b", "é", "σ", "ς", "##σ", "##ς", "ασ", "ας", "x", "[", "]", "mask", "sep", "日", "E", "É")
TOKENS = [*_SPECIAL, *_WORDS, "<e1>", "<e10>"]
FOREIGN = TextRules((*_SPECIAL, "<e1>", "<e10>"), is_foreign=True)
_PARTS = (
    *("a", "b", "ab", " ", "  ", "[SEP]", "[MASK]", "[mask]", "[SEP][SEP]", "[", "]", "[UNK]", "<e1>", "<e10>", "<E1>"),
    *("ασ", "ΑΣ", "Σ", "ἀΣ.", "É", "e\u0301", "日", "😀", "'", "", "\t", "\x00", "\u200b", "\ue000", "\U000f0001"),
)


def texts_with_special_tokens():
    draw = random.Random(1)
    return ["".join(draw.choices(_PARTS, k=draw.randrange(12))) for _ in range(200)]
