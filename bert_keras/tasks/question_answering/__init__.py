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
    ),
}
