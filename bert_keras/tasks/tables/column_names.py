"""The usual names of columns, which tables, JSON and data in memory share; `folded` is the form of names here."""

from collections.abc import Collection, Iterable, Sequence

TEXT_NAMES = (
    *("text", "sentence", "sentence1", "text_a", "premise", "question", "question1", "review", "content", "body"),
    *("message", "comment", "tweet", "document", "description"),
)
LABEL_NAMES = ("label", "labels", "gold_label", "class", "category", "target", "sentiment", "score", "rating")
PAIRS = (
    *(("sentence1", "sentence2"), ("text_a", "text_b"), ("text", "text_pair"), ("premise", "hypothesis")),
    *(("question1", "question2"), ("question", "sentence"), ("sentence_1", "sentence_2"), ("text1", "text2")),
    *(("sentence_a", "sentence_b"), ("text_1", "text_2")),
)
QUESTION_NAMES = ("question", "query")
CONTEXT_NAMES = ("context", "passage", "paragraph")
# Texts for vectors and for ranking, besides `PAIRS`; `negative_names` finds the columns of texts that do not fit.
VECTOR_PAIRS = (
    *((query, text) for query in ("anchor", "query") for text in ("positive", "pos")),
    *(("query", "document"), ("query", "doc"), ("query", "text")),
    # Before the answers, which are a part of the context.
    *((question, context) for question in QUESTION_NAMES for context in CONTEXT_NAMES),
    ("question", "answer"),
    *PAIRS,
)
# A text and its list in rows of JSON, as in the answers and requests of the server.
LIST_PAIRS = (
    *(("query", texts) for texts in ("texts", "documents", "docs", "passages")),
    *(("text", "choices"), ("question", "choices")),
)
SCORE_NAMES = ("score", "similarity", "similarity_score")
RELEVANCE_NAMES = ("score", "relevance", "similarity", "label")
CLASS_NAMES = ("gold_label", "label", "class", "category")
_NEGATIVES = ["neg", *(f"negative{end}" for end in ("", *range(10), *(f"_{number}" for number in range(10))))]
KNOWN_NAMES = {
    *(*TEXT_NAMES, *LABEL_NAMES, *SCORE_NAMES, *RELEVANCE_NAMES, *CLASS_NAMES, *_NEGATIVES, "id", "index"),
    *(name for pair in VECTOR_PAIRS for name in pair),
} - {"pos", "neg"}  # the classes of many texts

# Tagged words: the first name that a file has counts.
WORD_NAMES = ("words", "word", "tokens", "token")
TAG_NAMES = ("tags", "tag", "ner_tags", "ner_tag", "ner", "labels", "label")
PREDICTED_TAGS = "predicted_tags"
SENTENCE_NAMES = ("sentence_#", "sentence", "sentence_id", "sentence_number", "sent_id", "sent", "sentence_idx")
DOCUMENT_NAMES = ("document", "document_id", "document_#", "doc", "doc_id", "doc_#", "file", "file_name")
WORD_NUMBER_NAMES = tuple(
    f"{thing}_{number}" for thing in ("word", "token") for number in ("#", "id", "index", "number", "position", "idx")
)

# Questions.
ANSWERS_NAMES = ("answers",)
ANSWER_NAMES = ("answer", "answer_text")
START_NAMES = ("answer_start", "start")
ID_NAMES = ("id", "qid", "question_id", "guid")


def folded(name: str) -> str:
    """Returns a name in lower case, with underscores for blanks and hyphens."""
    return "_".join(name.lower().replace("-", " ").replace("_", " ").split())


def usual_name(names: Iterable[str], known: Collection[str]) -> str | None:
    """Returns the name that is the first of the `known` ones, or None."""
    by_name = {folded(name): name for name in names}
    return next((by_name[name] for name in known if name in by_name), None)


def negative_names(names: Iterable[str]) -> list[str]:
    """Returns the columns of texts that do not fit, by their usual names."""
    by_name = {folded(name): name for name in names}
    return [name for known, name in by_name.items() if known.startswith("negative") or known == "neg"]


def usual_pair(names: Iterable[str], pairs: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Returns the columns of two texts by their usual names, or None."""
    by_name = {folded(name): name for name in names}
    return next(((by_name[a], by_name[b]) for a, b in pairs if a in by_name and b in by_name), None)
