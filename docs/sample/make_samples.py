"""Makes the labelled sample data from phrases.txt: messages, entities and questions. All of it is made up.

    python docs/sample/make_samples.py

It writes the files into data_prep/sample. They depend only on phrases.txt and this program.
"""

import collections
import csv
import io
import json
import pathlib
import random
import re

_PHRASES = pathlib.Path(__file__).with_name("phrases.txt")
_SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "data_prep" / "sample"
_NUM_MESSAGES = {"delivery": 150, "return": 120, "payment": 105, "product": 90, "account": 75, "feedback": 60}
# For training and for evaluation.
_NUM_SENTENCES = {"": 300, "_dev": 100}
_NUM_NOTICES = {"": 54, "_dev": 16}
_NOTICES = ("notice_order", "notice_shop", "notice_event", "notice_product")
_ENTITIES = ("PER", "LOC", "ORG", "DATE", "ORDER")
# Sections whose names are divided between training and evaluation.
_NAMES = ("given", "family", "place", "trade_word")
# Kinds of items: a text speaks of one item, except for {other}.
_KINDS = ("wear", "device", "home")
# Sections that have one value in a text.
_CONSTANT = ("order", "relative", "first", "last", "town")
_SLOT = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"\(([^()]*)\)")


class Phrases:
    """The sections of phrases.txt, and random texts of their entries.

    `share` is the part of the names to use: a pair of numbers from 0 to 1.
    """

    def __init__(self, seed, share=(0, 1)):
        self.random = random.Random(seed)
        self._fixed = {}
        self.sections = collections.defaultdict(list)
        for line in _PHRASES.read_text(encoding="utf-8").splitlines():
            if line.startswith("== "):
                name = line.removeprefix("== ")
            elif line and not line.startswith("#"):
                self.sections[name].append(line)
        for name in _NAMES:
            names = self.sections[name]
            self.sections[name] = names[round(share[0] * len(names)) : round(share[1] * len(names))]

    def begin_text(self):
        """Forgets the values of the text before."""
        self._fixed = {}

    def value(self, section):
        """Returns a random text of a section, or the value that the section already has in this text."""
        if section == "other":
            others = {name for kind in _KINDS for name in self.sections[kind]} - {self._fixed.get("item")}
            return self.random.choice(sorted(others))
        key = "item" if section in _KINDS else section
        if key not in self._fixed:
            value = self.expand(self.random.choice(self.sections[section]))
            if key not in ("item", *_CONSTANT):
                return value
            self._fixed[key] = value
        return self._fixed[key]

    def choose(self, entry):
        """Returns an entry with a choice made for every (a|b)."""
        return _CHOICE.sub(lambda choice: self.random.choice(choice[1].split("|")), entry)

    def expand(self, entry):
        """Returns an entry with a choice made for every {section} and every (a|b)."""
        return _SLOT.sub(lambda slot: self.value(slot[1]), self.choose(entry))

    def in_turns(self, section, count):
        """Returns entries of a section in random order, all of them about equally often."""
        entries = []
        while len(entries) < count:
            entries += self.random.sample(self.sections[section], len(self.sections[section]))
        return entries[:count]


def make_messages():
    """Returns rows of text and label."""
    phrases, rows, known = Phrases(1), [], set()
    for label, count in _NUM_MESSAGES.items():
        for entry in phrases.in_turns(label, count):
            while (text := _message(phrases, entry)).lower() in known:
                pass
            known.add(text.lower())
            rows.append((text, label))
    phrases.random.shuffle(rows)
    return rows


def _message(phrases, entry):
    def happens(probability):
        return phrases.random.random() < probability

    phrases.begin_text()
    parts = [phrases.expand(entry)]
    if happens(0.45):
        parts.insert(phrases.random.choice((0, 1)), phrases.value("aside"))
    if happens(0.35):
        opening = phrases.value("opening")
        if opening[-1] in ",:" and not re.match(r"I\b", parts[0]) or opening.endswith("but"):
            parts[0] = parts[0][0].lower() + parts[0][1:] if not re.match(r"I\b", parts[0]) else parts[0]
        parts.insert(0, opening)
    if happens(0.25):
        parts.append(phrases.value("closing"))
    text = " ".join(parts)
    if happens(0.2):
        text = _with_typing_error(phrases.random, text)
    if happens(0.2):
        text = text.lower()
    if happens(0.2):
        return text.rstrip(".?!")
    return text.rstrip(".?!") + phrases.random.choice(("!", "!!", "???", " ...")) if happens(0.1) else text


def _with_typing_error(generator, text):
    """Swaps, drops or doubles a letter inside a word of five letters or more."""
    words = list(re.finditer(r"[A-Za-z]{5,}", text))
    if not words:
        return text
    word = generator.choice(words)
    place = generator.randrange(word.start() + 1, word.end() - 1)
    first, second = text[place], text[place + 1]
    return text[:place] + generator.choice((second + first, second, first + first + second)) + text[place + 2 :]


def make_sentences(phrases, count):
    """Returns sentences, each a list of (word, tag)."""
    sentences = {}
    for entry in phrases.in_turns("entity_sentence", 2 * count):
        phrases.begin_text()
        parts = phrases.choose(entry).split()
        sentences[tuple(pair for part in parts for pair in _tagged(phrases, part))] = None
    return list(sentences)[:count]


def _tagged(phrases, part):
    kind = part.strip("{}")
    if kind not in _ENTITIES:
        return [(word, "O") for word in phrases.expand(part).split()]
    words = re.findall(r"[^\s,]+|,", phrases.value(kind))
    return [(word, f"{'I' if index else 'B'}-{kind}") for index, word in enumerate(words)]


def make_questions(phrases, count, prefix):
    """Returns notices with questions as the dict of SQuAD 2.0's JSON; ids of questions begin with `prefix`."""
    articles = [{"title": kind.removeprefix("notice_"), "paragraphs": []} for kind in _NOTICES]
    for number in range(count):
        kind = number % len(_NOTICES)
        articles[kind]["paragraphs"].append(_notice(phrases, _NOTICES[kind], f"{prefix}{number}"))
    return {"version": "v2.0", "data": articles}


def _notice(phrases, section, notice_id):
    """Returns a paragraph with questions that it answers, then questions that it does not answer."""
    phrases.begin_text()
    facts = [[part.split(" > ") for part in entry.split(" // ")] for entry in phrases.sections[section]]
    values = {name: phrases.value(name) for (text,), *_ in facts for name in _SLOT.findall(text)}
    # The first two facts are two ways to begin.
    chosen = [phrases.random.choice(facts[:2]), *(fact for fact in facts[2:] if phrases.random.random() < 0.65)]
    said, context, answered = {}, "", []
    for (text,), *questions in chosen:
        if set(_SLOT.findall(text)) <= set(said):
            continue
        for part in re.split(r"(?<=\})|(?=\{)", text):
            name = part.strip("{}")
            if part != name:
                said[name] = len(context)
            context += values[name] if part != name else part
        context += " "
        question, name = phrases.random.choice(questions)
        answered.append((_fill(question, values), {"text": values[name], "answer_start": said[name]}))
    phrases.random.shuffle(answered)
    notice_questions = [(question, [answer]) for question, answer in answered[:4]]
    notice_questions += [(question, []) for question in _unanswerable(phrases, facts, values, said)[:2]]
    return {
        "context": context.rstrip(),
        "qas": [
            {"id": f"{notice_id}q{index}", "question": question, "answers": answers, "is_impossible": not answers}
            for index, (question, answers) in enumerate(notice_questions)
        ],
    }


def _unanswerable(phrases, facts, values, said):
    """Returns questions about what a notice does not say, and questions about another order, person or event."""
    unanswerable = set()
    for _, *questions in facts:
        for question, name in questions:
            if name not in said:
                unanswerable.add(_fill(question, values))
            for slot in {*_SLOT.findall(question)} & {"order", "person", "event", "item", "town"} & set(said):
                phrases.begin_text()
                if (other := phrases.value(slot)) != values[slot]:
                    unanswerable.add(_fill(question, values | {slot: other}))
    unanswerable = sorted(unanswerable)
    phrases.random.shuffle(unanswerable)
    return unanswerable


def _fill(text, values):
    return _SLOT.sub(lambda slot: values[slot[1]], text)


def make_samples():
    """Returns the text of each file by its name."""
    messages = io.StringIO(newline="")
    csv.writer(messages, lineterminator="\n").writerows([("text", "label"), *make_messages()])
    files = {"messages.csv": messages.getvalue()}
    for part, (first, last) in {"": (0, 0.6), "_dev": (0.5, 1)}.items():
        phrases = Phrases(len(files), (first, last))
        sentences = make_sentences(phrases, _NUM_SENTENCES[part])
        files[f"entities{part}.txt"] = "\n".join(
            "".join(f"{word} {tag}\n" for word, tag in sentence) for sentence in sentences
        )
        questions = make_questions(phrases, _NUM_NOTICES[part], f"{part[1:]}n")
        files[f"questions{part}.json"] = (
            json.dumps(questions, separators=(",", ":")).replace('{"context"', '\n{"context"') + "\n"
        )
    return files


if __name__ == "__main__":
    for name, text in make_samples().items():
        (_SAMPLE / name).write_text(text, encoding="utf-8", newline="\n")
