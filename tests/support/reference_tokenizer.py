"""A reference implementation of the original tokenizer, written for clarity and not for speed.

Also provides difficult text, and a vocabulary for it.
"""

import random
import sys
import unicodedata

from hypothesis import strategies as st

from bert_keras.data_prep.text.characters import CJK_IDEOGRAPHS

MODES = [(True, None), (False, None), (True, False), (False, True)]  # do_lower_case, strip_accents

# Characters that change length, reorder, vanish, join or separate.
TRICKY = (
    "aAbBzZ019 \t\n\r!#'-.,[]`_$^~ΣσςΑαİıKÅéÉßẞǅﬁ\u0301\u0327\u0345\u0344\u0307\u093f\u093c\u0958\u302e\u302f\u3099"
    "안\u1112\u1161\u11abがガ\x00\x01\x0b\x0c\x1c\x1f\x7f\x85\xa0\xad\u0600\u1680\u180e\u200b\u200d\u2028\u2029\u202f"
    "\u3000\ufeff\ufffd\ue000\ud800\U000e0001\U0010ffff中豈\U0002f800、。\u1fef\u037e≠≮€£°💩👨\u1d16d\U0001d15e"
)
odd_text = st.lists(
    st.sampled_from(TRICKY) | st.characters() | st.sampled_from(["un", "##un", "runn", "ing", "ΑΣ", "[MASK]", " "])
).map("".join)


def as_bytes(texts):
    return [text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass") for text in texts]


def random_texts(number, words):
    """Returns texts of letters of all planes, marks, ideographs, emoji, controls, and words of a vocabulary."""
    draw = random.Random(17)
    assigned = [char for char in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(char) not in ("Cs", "Co")]
    marks = [char for char in assigned if unicodedata.combining(char)]
    expanding = [char for char in assigned if unicodedata.normalize("NFD", char) != char or char.lower() != char]
    ideographs = [chr(code) for limits in CJK_IDEOGRAPHS for code in limits]
    emoji = ["👨\u200d👩\u200d👧", "🇫🇷", "👍🏽", "☝\ufe0f", "🤖"]
    kinds = [
        *(lambda: draw.choice(TRICKY), lambda: draw.choice(assigned), lambda: chr(draw.randrange(0x20, 0x17F))),
        *(lambda: draw.choice(marks), lambda: draw.choice(expanding), lambda: draw.choice(ideographs)),
        *(lambda: draw.choice(emoji), lambda: chr(draw.randrange(0x20)), lambda: draw.choice(words), lambda: " "),
        *(lambda: "a" * draw.randrange(190, 210), lambda: draw.choice(["ΑΣ", "Σ", "'", "\u0345", "[MASK]", "##"])),
    ]
    texts = []
    for _ in range(number):
        chosen = draw.sample(kinds, draw.randint(1, 5))
        texts.append("".join(draw.choice(chosen)() for _ in range(draw.randrange(25))))
    return texts


def words_as_described(text, do_lower_case, strip_accents):
    """Splits text into words, character by character."""
    cleaned = ""
    for char in text:
        code = ord(char)
        if char in " \t\n\r" or unicodedata.category(char) == "Zs":
            cleaned += " "
        elif code in (0, 0xFFFD) or unicodedata.category(char) in ("Cc", "Cf"):
            pass
        elif any(first <= code <= last for first, last in CJK_IDEOGRAPHS):
            cleaned += " " + char + " "
        else:
            cleaned += char
    words = []
    for word in cleaned.strip().split():
        if do_lower_case:
            word = word.lower()
        if strip_accents:
            word = "".join(char for char in unicodedata.normalize("NFD", word) if unicodedata.category(char) != "Mn")
        run = ""
        for char in word:
            code = ord(char)
            is_ascii_symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
            if is_ascii_symbol or unicodedata.category(char).startswith("P"):
                words += [run, char]
                run = ""
            else:
                run += char
        words.append(run)
    return " ".join(words).split()


def pieces_as_described(word, vocab):
    """Splits a word into word pieces: greedy longest match, trying every end."""
    if len(word) > 200:
        return ["[UNK]"]
    pieces, start = [], 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:end]
            if piece in vocab:
                break
        else:
            return ["[UNK]"]
        pieces.append(piece)
        start = end
    return pieces


def write_vocab(path, *lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def write_odd_vocab(path, *added):
    """Writes a vocabulary of three quarters of the odd characters, so that words have unknown parts or many tokens.

    `added` are further tokens.
    """
    normalised = unicodedata.normalize("NFD", TRICKY + TRICKY.lower()) + TRICKY
    chars = sorted({char for char in normalised if not char.isspace() and not "\ud800" <= char <= "\udfff"})
    known = [char for number, char in enumerate(chars) if number % 4]
    lines = ["[PAD]", "[UNK]", "un", "##un", "runn", "##ing", "ας", "##ας", "ab", "##b1", "##", *known]
    lines += ["##" + char for char in known]
    return write_vocab(path, *lines, *added)
