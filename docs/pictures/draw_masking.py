"""Draws masking.png: a masked example of the sample text, and how often each kind of replacement occurs."""

import collections
import functools
import random

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.pretraining.instances import draw_instances
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from picture_style import BLUE, GREY, INK, MUTED, RED, VIOLET, YELLOW, Canvas, text_width
from sample_data import SAMPLE_TEXT, sample_tokenizer

SETTINGS = PretrainingDataSettings(max_seq_length=48, max_predictions_per_seq=8)
KINDS = {"[MASK]": (RED, 0.8), "random token": (YELLOW, 0.1), "unchanged": (VIOLET, 0.1)}
WIDTH, MARGIN = 640, 20


@functools.cache
def instances():
    """Returns all pre-training examples of the sample text."""
    tokenizer = sample_tokenizer()
    documents = Documents(tokenizer.vocab_size)
    for line in [*SAMPLE_TEXT.read_text(encoding="utf-8").split("\n"), ""]:
        if line:
            documents.add_sentence([tokenizer.encode(line)])
        else:
            documents.end_document()
    vocabulary = MaskingVocabulary.from_vocab(tokenizer.vocab)
    return list(draw_instances(documents, SETTINGS, vocabulary, random.Random(SETTINGS.random_seed)))


def kind_of(token_id, original_id):
    """Names the replacement of a chosen token."""
    if token_id == original_id:
        return "unchanged"
    return "[MASK]" if token_id == sample_tokenizer().vocab["[MASK]"] else "random token"


def chosen(instance):
    """Returns the kind of replacement and the original id of each chosen token, by position."""
    pairs = zip(instance.masked_lm_positions, instance.masked_lm_ids, strict=True)
    return {position: (kind_of(instance.tokens[position], id_), id_) for position, id_ in pairs}


def is_clear(instance):
    """Returns whether an example has each kind of replacement, [MASK] most often, and only long words at the others."""
    replacements = chosen(instance)
    tokens = sample_tokenizer().convert_ids_to_tokens(instance.tokens)
    words = [tokens[position] for position, (kind, _) in replacements.items() if kind != "[MASK]"]
    counts = collections.Counter(kind for kind, _ in replacements.values())
    return [counts[kind] for kind in KINDS] == [5, 1, 1] and all(len(word) > 4 and word.isalpha() for word in words)


def figures():
    counts = collections.Counter(kind for instance in instances() for kind, _ in chosen(instance).values())
    canvas = Canvas(WIDTH, 448)
    canvas.write(MARGIN, 24, "The input of BERT, with the tokens to predict below", 15, weight="bold")
    canvas.legend(MARGIN, 52, [*((kind, color) for kind, (color, _) in KINDS.items()), ("not chosen", BLUE)], 13)
    bottom = draw_tokens(canvas, 76, next(filter(is_clear, instances())))
    draw_shares(canvas, bottom + 22, counts)
    return {"masking": canvas.figure}


def draw_tokens(canvas, top, instance):
    """Draws an example line by line, with the original of each chosen token below it; returns the lower end."""
    tokens = sample_tokenizer().convert_ids_to_tokens(instance.tokens)
    replacements, x, height = chosen(instance), MARGIN, 34
    for position, token in enumerate(tokens):
        kind, original_id = replacements.get(position, (None, None))
        original = sample_tokenizer().convert_ids_to_tokens([original_id])[0] if original_id is not None else ""
        width = max(text_width(token, 13.5), text_width(original, 13.5)) + 12
        if x + width > WIDTH - MARGIN:
            x, top, height = MARGIN, top + height, 34
        color = KINDS[kind][0] if kind else GREY if token in ("[CLS]", "[SEP]") else BLUE
        canvas.box(x, top, width, 25, color, text=token, size=13.5)
        if kind:
            height = 58
            canvas.write(x + width / 2, top + 37, original, 13.5, align="center", weight="bold")
        x += width + 4
    return top + height - 8


def draw_shares(canvas, top, counts):
    total = sum(counts.values())
    canvas.write(MARGIN, top, f"{total:,} chosen tokens of {len(instances()):,} examples", 15, weight="bold")
    left, full = 186, 350
    for row, (kind, (color, share)) in enumerate(KINDS.items()):
        y, observed = top + 20 + 34 * row, counts[kind] / total
        canvas.write(left - 10, y + 12.5, f"share of {kind}", 13.5, align="right")
        canvas.box(left, y, full * observed, 24, color)
        canvas.line((left + full * share, y - 3), (left + full * share, y + 27), color=INK, width=1.6)
        canvas.write(left + full * max(observed, share) + 10, y + 12.5, f"{observed:.1%}".replace("%", " %"), 13.5)
    note = "black lines: 80 %, 10 % and 10 %, as in the paper"
    canvas.write(WIDTH - MARGIN, top + 112, note, 12.5, color=MUTED, align="right")
