"""Splits running text into sentences by rules, without a model; for any script that marks the end of a sentence.

Sentences end at the marks of European scripts, Arabic, Urdu, Devanagari, Ethiopic, Armenian, Burmese, Khmer, Tibetan,
Chinese and Japanese. Thai and Lao have no such mark, so their paragraphs stay whole. A period ends no sentence after an
initial, a title, an abbreviation or an ordinal number, or before a lower-case word. Abbreviations are those of English,
German, French and Spanish. Text without capitals is split as well, by periods alone.
"""

import re
from collections.abc import Iterator

# Some languages close a quotation with the mark that opens it in others.
_CLOSING = "\"'\u201d\u2019\u00bb\u203a\u201c\u2018\u00ab\u2039)\\]}\u300d\u300f\uff09\u3011\u300b\u3009"
_OPENING = "\"'\u201c\u2018\u201e\u201a\u00ab\u2039([{\u00bf\u00a1\u2013\u2014*\\-"
# Marks that need white space after them; `.` needs a closer look.
_SPACED = (
    ".!?\u2026\u203c\u2047-\u2049\u061f\u06d4\u0964\u0965\u1362\u1367\u1368\u0589\u104a\u104b\u17d4\u17d5\u0f0d\u0f0e"
)
# Marks of scripts without spaces.
_TIGHT = "\u3002\uff01\uff1f\uff61"
# A candidate begins with the first mark of a run and keeps all of them: the time stays proportional to the text.
_CANDIDATE = re.compile(
    rf"(?P<tight>(?<![{_TIGHT}])[{_TIGHT}][{_TIGHT}{_SPACED}]*[{_CLOSING}]*(?![{_CLOSING}{_TIGHT}])\s*)"
    rf"|(?P<marks>(?<![{_SPACED}])[{_SPACED}]++(?:\s\.)*)(?P<closing>[{_CLOSING}]*+)\s+"
)
_BEFORE_WORDS = re.compile(rf"[{_OPENING} ]*")
_NEXT = re.compile(rf"[{_OPENING}\s]*(?P<word>\w?[\w'\u2019-]*)")
_LAST_WORD = re.compile(r"[^\s\"“„«(\[{‘'\u2014-]*\Z")
_ORDINAL = re.compile(r"\d{1,2}\Z")
_WITH_PERIODS = re.compile(r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}\Z")  # "U.S", "z.B"
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[ivx]{1,4}|[^\W\d_])\Z", re.IGNORECASE)
_LONGEST_ABBREVIATION = 24


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A name or a number follows them.
_TITLES = _words(
    """
    mr mrs ms messrs mx dr drs prof gen sen sens rep reps gov govs lt ltc col cpl sgt capt cmdr maj adm brig pvt
    rev revs fr hon pres supt insp st ste mt ft fig figs eq eqs ref sec vol vols pp ch chap vs v cf al op viz
    approx est ca c incl esp dept univ assn bros e.g i.e z.b d.h u.a o.ä u.ä z.t i.d.r bzw ca evtl ggf inkl exkl
    vgl sog hr fr frl dipl ing nr abs art bd hrsg abb tab str sr sra srta dn da ud uds vd mme mlle mgr me mons
    av bvd blvd jr.-prof priv.-doz
    """
)
# Ends of sentences only before a word that often begins one.
_ABBREVIATIONS = _words(
    """
    inc ltd co corp plc llc bros jr sr etc esq ph.d m.d b.a m.a b.sc m.sc u.s u.k u.n e.u d.c a.m p.m a.d b.c
    n.y l.a ave blvd rd st mass calif ariz ala ark colo conn del fla ga ill ind kan ky la md mich minn miss mo
    mont neb nev okla ore pa tenn tex va vt wash wis wyo usw usf u.s.w bzgl geb gest gegr jh jhd std min sek mio
    mrd tel dt engl franz lat ehem ehemal eigtl geg s.a m.e v.chr n.chr
    """
)
# Only before a number.
_BEFORE_NUMBERS = _words(
    "no nos art para pg p jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun nr s z"
)
_STARTERS = _words(
    """
    the a an this that these those he she it they we you i there here his her its their our my in on at for from
    with by as but and or so if when while after before since although though however also then now what who why
    how where most many some all no not one according meanwhile moreover furthermore der die das ein eine er sie
    es wir ihr ich in im am auf bei mit nach von zu für aber und oder doch wenn als dies diese dieser dieses
    seit während obwohl auch dann nun le la les un une il elle ils elles nous vous je en dans mais et ou el los
    las una pero y
    """
)
# After an ordinal number in German, Danish, Czech and similar; in English a capitalised word begins a sentence.
_AFTER_ORDINALS = _words(
    """
    januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert
    jahrhunderts jahrhunderten jh jhd jahrtausend jahrtausends platz mal jahrestag geburtstag auflage etage
    stock klasse liga runde spieltag band kapitel lebensjahr bezirk arrondissement minute staffel wahlperiode
    weltkrieg weltkriegs armee division infanterie-division jan feb mär apr jun jul aug sep okt nov dez
    """
)


def split_sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a paragraph, without the white space between them.

    Joined with a space (Chinese and Japanese: with nothing), they give the text again, except for white space.
    """
    is_cased = text != text.lower()
    start, first_word = 0, _start_of_words(text, 0)
    for match in _CANDIDATE.finditer(text):
        if match["tight"] is not None or _is_end(text, start, first_word, match, is_cased):
            sentence = text[start : match.end()].strip()
            if sentence:
                yield sentence
            start = match.end()
            first_word = _start_of_words(text, start)
    sentence = text[start:].strip()
    if sentence:
        yield sentence


def _start_of_words(text: str, start: int) -> int:
    found = _BEFORE_WORDS.match(text, start)
    return found.end() if found else start


def _is_end(text: str, start: int, first_word: int, match: re.Match, is_cased: bool) -> bool:
    """Returns whether a sentence that began at `start`, with its words at `first_word`, ends before white space."""
    found = _NEXT.match(text, match.end())
    following = found["word"] if found else ""
    if is_cased and following[:1].islower():
        # "What?" he asked. Yahoo! is ... and so on.
        return False
    marks = match["marks"]
    if marks != ".":
        return True
    first = max(start, match.start() - _LONGEST_ABBREVIATION)
    found = _LAST_WORD.search(text, first, match.start())
    word = found.group() if found else ""
    is_first = found is not None and first_word >= found.start()
    return not word or not _is_abbreviation(word, following, is_first, bool(match["closing"]))


def _is_abbreviation(word: str, following: str, is_first: bool, is_closed: bool) -> bool:
    """Returns whether a period belongs to the word before it, judged by the word that follows."""
    if is_first and _LIST_NUMBER.match(word):
        return True
    lowered, next_word = word.lower(), following.lower()
    if lowered in _TITLES:
        return not is_closed
    if len(word) == 1 and word.isalpha():
        # An initial.
        return not is_closed
    if following[:1].isdigit() and lowered in _BEFORE_NUMBERS:
        return True
    if _ORDINAL.match(word):
        return next_word in _AFTER_ORDINALS
    if lowered in _ABBREVIATIONS or _WITH_PERIODS.match(word):
        return next_word not in _STARTERS
    return False
