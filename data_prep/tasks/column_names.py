"""The usual names of columns, which tables, JSON and data in memory share; `folded` is the form of names here."""

TEXT_NAMES = (
    *("text", "sentence", "sentence1", "text_a", "premise", "question", "question1", "review", "content", "body"),
    *("message", "comment", "tweet", "document", "description"),
)
LABEL_NAMES = ("label", "labels", "class", "category", "target", "sentiment", "score", "rating")
PAIRS = (
    *(("sentence1", "sentence2"), ("text_a", "text_b"), ("text", "text_pair"), ("premise", "hypothesis")),
    *(("question1", "question2"), ("question", "sentence")),
)
KNOWN_NAMES = {*TEXT_NAMES, *LABEL_NAMES, *(second for _, second in PAIRS), "id", "index"}

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
QUESTION_NAMES = ("question", "query")
CONTEXT_NAMES = ("context", "passage", "paragraph")
ANSWERS_NAMES = ("answers",)
ANSWER_NAMES = ("answer", "answer_text")
START_NAMES = ("answer_start", "start")
ID_NAMES = ("id", "qid", "question_id", "guid")


def folded(name: str) -> str:
    """Returns a name in lower case, with underscores for blanks and hyphens."""
    return "_".join(name.lower().replace("-", " ").replace("_", " ").split())
