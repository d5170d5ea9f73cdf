"""Reads texts with spans, as annotation tools write them, and cuts them into words with tags.

The tools are doccano, Label Studio, Prodigy, and all others whose rows have a text and a list of spans. A span is
`[start, end, label]` or an object. Tools written in Python count code points, those in JavaScript UTF-16 units, which
differ after characters such as emoji. The texts of the spans decide, or else the borders of words.
"""

import bisect
import dataclasses
import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.text.characters import utf16_places
from bert_keras.data_prep.text.words import Split, split_words
from bert_keras.mistakes import Mistake, shortened
from bert_keras.storage.text_files import is_blank
from bert_keras.tasks.tables.column_names import TEXT_NAMES, folded

SPAN_NAMES = ("spans", "entities", "ents", "label", "labels", "annotations", "ner", "tags")
_START_NAMES = ("start", "start_offset", "startoffset", "start_char", "begin")
_END_NAMES = ("end", "end_offset", "endoffset", "end_char", "stop")
_LABEL_NAMES = ("label", "labels", "type", "tag", "entity", "entity_type", "entity_group")
# Prodigy's answers but "accept".
_REFUSALS = ("reject", "ignore")
UNITS = ("code points", "UTF-16 units")


@dataclasses.dataclass(frozen=True)
class Span:
    start: int
    end: int
    label: str
    text: str | None  # as the tool wrote it

    def __str__(self) -> str:
        return f"[{self.start}, {self.end}, {json.dumps(self.label, ensure_ascii=False)}]"


@dataclasses.dataclass(frozen=True)
class AnnotatedText:
    """A text of a row.

    Attributes:
        place: file and line, for messages.
        spans: None: nobody annotated the text.
        refusal: why the annotation does not count, such as "answer: reject"; empty if it does.
        split: returns the start and the end of each word of a text.
    """

    place: str
    text: str
    spans: Sequence[Span] | None
    refusal: str = ""
    split: Split = split_words

    @functools.cached_property
    def words(self) -> list[tuple[int, int]]:
        return self.split(self.text)

    @functools.cached_property
    def places(self) -> list[int] | None:
        """The index of each UTF-16 unit of the text and of its end; None if both units are equal."""
        return utf16_places(self.text)

    def range_of(self, span: Span, unit: str) -> tuple[int, int] | None:
        """Returns start and end of a span as indices of the text; None if a character is cut or the text is shorter."""
        if unit == "code points" or self.places is None:
            return (span.start, span.end) if span.end <= len(self.text) else None
        if span.end >= len(self.places):
            return None
        start, end = self.places[span.start], self.places[span.end]
        is_cut = any(place > 0 and self.places[place - 1] == self.places[place] for place in (span.start, span.end))
        return None if is_cut else (start, end)

    def fits(self, span: Span, unit: str) -> bool:
        """Returns whether a span in a unit has the text that the tool wrote, or else begins and ends with words."""
        found = self.range_of(span, unit)
        if found is None:
            return False
        if span.text is not None:
            return _is_same(self.text[slice(*found)], span.text)
        start, end = _without_blanks(self.text, *found)
        return start < end and start in {first for first, _ in self.words} and end in {last for _, last in self.words}


def read_annotated(row: Mapping[str, Any], place: str) -> AnnotatedText | None:
    """Returns the text of a row of JSON and its spans; None if the row has no text."""
    if isinstance(row.get("data"), Mapping):
        return _read_label_studio(row, place)
    keys = {folded(key): key for key in row}
    text = next((row[keys[name]] for name in TEXT_NAMES if isinstance(row.get(keys.get(name, "")), str)), None)
    if text is None:
        return None
    names = [keys[name] for name in SPAN_NAMES if isinstance(row.get(keys.get(name, "")), list)]
    full = [name for name in names if row[name]]
    if len(full) > 1:
        listed = " and ".join(f'"{name}"' for name in full)
        raise Mistake("{} has spans in {}; keep one of them", place, listed)
    refusal = f"answer: {row['answer']}" if row.get("answer") in _REFUSALS else ""
    if not names:
        return AnnotatedText(place, text, None, refusal)
    name = (full or names)[0]
    return AnnotatedText(place, text, [_span(value, f'{place}: a span of "{name}"') for value in row[name]], refusal)


def _read_label_studio(task: Mapping[str, Any], place: str) -> AnnotatedText:
    data = {folded(key): value for key, value in task["data"].items() if isinstance(value, str)}
    text = next((data[name] for name in TEXT_NAMES if name in data), None)
    if text is None and len(data) == 1:
        [text] = data.values()
    if text is None:
        raise Mistake('{}: "data" has no "text", but {}; name the text so', place, ", ".join(task["data"]) or "nothing")
    given = _objects_in(task, "annotations" if "annotations" in task else "completions", place)
    kept = [part for part in given if not part.get("was_cancelled")]
    best = [part for part in kept if part.get("ground_truth")]
    found = [_read_results(_objects_in(part, "result", place), place) for part in (best if len(best) == 1 else kept)]
    if not found:
        return AnnotatedText(place, text, None, "was_cancelled" if given else "no annotation")
    if any(sorted(map(str, spans)) != sorted(map(str, found[0])) for spans in found):
        raise Mistake(
            "{} has {} annotations with different spans; mark one of them as ground truth, or keep one",
            place,
            len(found),
        )
    return AnnotatedText(place, text, found[0])


def _read_results(results: Sequence[Mapping[str, Any]], place: str) -> list[Span]:
    """Returns the spans of an annotation of Label Studio; choices and relations are results without labels."""
    values = [result["value"] for result in results if isinstance(result.get("value"), Mapping)]
    labelled = [(value, next((key for key in value if key.endswith("labels")), None)) for value in values]
    return [_span({**value, "label": value[key]}, f'{place}: a span of "result"') for value, key in labelled if key]


def _objects_in(holder: Mapping[str, Any], key: str, place: str) -> list[Mapping[str, Any]]:
    values = holder.get(key) or []
    if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
        found = json.dumps(values, ensure_ascii=False)[:40]
        raise Mistake(
            '{}: "{}" is {}, but Label Studio writes a list of objects there; export it again', place, key, found
        )
    return values


def _span(value: Any, where: str) -> Span:
    value_json = json.dumps(value, ensure_ascii=False)[:80]
    needed = "it needs [start, end, label], or an object with these names"
    text = None
    if isinstance(value, Mapping):
        keys = {folded(key): key for key in value}
        names = (_START_NAMES, _END_NAMES, _LABEL_NAMES)
        value, text = (
            [next((value[keys[name]] for name in known if name in keys), None) for known in names],
            value.get("text"),
        )
    if not isinstance(value, list) or len(value) != 3:
        raise Mistake("{} is {}; {}", where, value_json, needed)
    start, end, label = value
    if isinstance(label, list) and len(label) == 1:
        [label] = label
    if any(type(offset) is not int for offset in (start, end)) or not isinstance(label, str) or is_blank(label):
        raise Mistake("{} is {}; {}: two whole numbers and one name", where, value_json, needed)
    if not 0 <= start < end:
        raise Mistake("{} is {}, but it must begin at 0 or later and end after its start", where, value_json)
    return Span(start, end, label.strip(), text if isinstance(text, str) else None)


def find_unit(texts: Sequence[AnnotatedText]) -> str:
    """Returns what the offsets of a file count: one of `UNITS`. Raises ValueError if this matters and is not clear."""
    places: dict[str, str] = {}
    unclear = None
    for text in texts:
        for span in text.spans or () if text.places else ():
            first, second = UNITS
            if text.range_of(span, first) == text.range_of(span, second):
                continue
            fitting = [unit for unit in UNITS if text.fits(span, unit)]
            if len(fitting) == 1:
                places.setdefault(fitting[0], f"{text.place}, {span}")
            else:
                unclear = unclear or f"{text.place}: {span}"
    if len(places) > 1:
        (first, place), (second, other) = places.items()
        raise Mistake(
            "{} fits if offsets count {}, but {} fits if they count {}; correct one", place, first, other, second
        )
    if unclear and not places:
        raise Mistake(
            "{} could count code points or UTF-16 units, which differ after characters such as emoji, and it "
            'fits the words of the text in both or in none; give each span its words as "text"',
            unclear,
        )
    return next(iter(places), UNITS[0])


def to_tags(text: AnnotatedText, unit: str) -> tuple[list[str], list[str] | None, int]:
    """Returns the words of a text, their BIO tags (None without spans), and how many words its spans cut."""
    ranges = list(_ranges(text, unit))
    cuts = sorted({place for start, end, _ in ranges for place in (start, end)})
    words, num_cut = [], 0
    for start, end in text.words:
        inner = cuts[bisect.bisect_right(cuts, start) : bisect.bisect_left(cuts, end)]
        words += itertools.pairwise([start, *inner, end])
        num_cut += bool(inner)
    if text.spans is None:
        return [text.text[slice(*word)] for word in words], None, 0
    tags, starts = ["O"] * len(words), [start for start, _ in words]
    for start, end, span in ranges:
        first, stop = bisect.bisect_left(starts, start), bisect.bisect_left(starts, end)
        if first >= stop:
            raise Mistake("{}: the span {} has no word; remove it, or correct its place", text.place, span)
        tags[first:stop] = [f"B-{span.label}", *[f"I-{span.label}"] * (stop - first - 1)]
    return [text.text[slice(*word)] for word in words], tags, num_cut


def _ranges(text: AnnotatedText, unit: str) -> Iterator[tuple[int, int, Span]]:
    """Yields start, end and span of each span, in their order, without blanks around them."""
    last: Span | None = None
    last_end = 0
    distinct = {(span.start, span.end, span.label): span for span in text.spans or ()}
    for span in sorted(distinct.values(), key=lambda span: (span.start, span.end)):
        found = text.range_of(span, unit)
        if found is None:
            length = len(text.text) if unit == "code points" or text.places is None else len(text.places) - 1
            raise Mistake("{}: the span {} does not fit its text of {} {}; correct it", text.place, span, length, unit)
        inside = text.text[slice(*found)]
        if span.text is not None and not _is_same(inside, span.text):
            raise Mistake(
                "{}: the span {} has the text {}, but at its place is {}; correct it, or export the file again",
                text.place,
                span,
                *(json.dumps(shortened(part), ensure_ascii=False) for part in (span.text, inside)),
            )
        start, end = _without_blanks(text.text, *found)
        if last and start < last_end:
            raise Mistake(
                "{}: the spans {} and {} overlap; a word has one tag, so keep one span", text.place, last, span
            )
        last, last_end = span, end
        yield start, end, span


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    inside = text[start:end]
    return start + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())


def _is_same(text: str, other: str) -> bool:
    """Returns whether texts are equal but for white space; Label Studio writes \\n for a line feed."""
    return text == other or text.split() == other.replace("\\n", "\n").split()
