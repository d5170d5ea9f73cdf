"""Answers from a text, as in SQuAD."""

from bert_keras.tasks.ability import LENGTH, NUMBER, SWITCH_OR_NULL, Ability, one_of

ABILITIES = {
    "question_answering": Ability(
        predictor="question_answering.predictor.QuestionAnswerer",
        answer="question_answering.predictor.QuestionAnswer",
        graph="question_answering.graph.SpanModel",
        head="squad",
        route="answer",
        settings={
            **dict.fromkeys(("doc_stride", "max_query_length", "max_answer_length", "n_best_size"), LENGTH),
            "version_2_with_negative": SWITCH_OR_NULL,
            "null_score_diff_threshold": NUMBER,
            "answer_text": one_of("release", "offsets"),
        },
        purpose="finds the answer to a question in a text",
        texts=("question", "context"),
        outputs=("start_logits", "end_logits"),
        page={
            "title": "Answer a question from a text",
            "purpose": "The model marks the words of the text that answer the question.",
            "button": "Find the answer",
            "hasTable": False,
            "fields": {"question": {"label": "Question", "rows": 1}, "context": {"label": "Text", "rows": 4}},
            "examples": [
                {
                    "name": "Lighthouse",
                    "question": "How tall is the lighthouse?",
                    "context": (
                        "The lighthouse on the northern cape was built in 1874 from local granite. It "
                        "is 32 metres tall, and its light reaches ships 20 miles away. Anna Lind was "
                        "its last keeper; she left in 1969, when a machine took over."
                    ),
                },
                {
                    "name": "Without an answer",
                    "question": "Who painted the ceiling?",
                    "context": (
                        "The old library has 40,000 books. Its reading room opens at nine, and it "
                        "closes at six in winter."
                    ),
                },
            ],
        },
    ),
}
