"""Text model for question answering, as trained by run_squad.py.

Axes: B batch, T tokens, n candidates for the start and for the end of an answer.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import tensorflow as tf

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer, code_points, cut_out
from bert_keras.mistakes import Mistake
from bert_keras.tasks.graph.networks import IdsNetwork
from bert_keras.tasks.graph.text_model import TextModel
from bert_keras.tasks.question_answering.squad_answers import NO_ANSWER


class SpanModel(TextModel):
    """Finds the answers to questions in texts, like `QuestionAnswerer` for texts that fit into one window.

    Inputs: "question" and "context", string [B]. The model cuts a question to max_query_length tokens, and the context
    to the remaining room. It ignores the setting answer_text.

    Outputs:
        "answer": string [B], a substring of the context; "" for no answer.
        "start", "end": int32 [B], in characters of the decoded context; -1 for no answer.
        "score": float32 [B], start logit + end logit; for no answer those of [CLS] (0 if the model always answers).
        "null_odds": float32 [B], [CLS] score - best span score (1000000 without a span; 0 if the model always answers).
        "is_impossible": bool [B], true for no answer.
    """

    # The graph always answers with substrings of the text.
    python_settings: ClassVar = {"answer_text": "offsets"}

    def __init__(self, network: IdsNetwork, tokenizer: GraphTokenizer, settings: Mapping[str, Any]):
        super().__init__(network, tokenizer, settings)
        if self.max_seq_length <= settings["max_query_length"] + 3:
            raise Mistake(
                "max_seq_length={} leaves no room for a text after max_query_length="
                "{} tokens of a question and 3 special tokens; take a model that reads longer sequences",
                self.max_seq_length,
                settings["max_query_length"],
            )

    def expected(self, answer: Any) -> dict[str, Any]:
        outputs = {
            "answer": answer.text,
            "start": -1 if answer.start is None else answer.start,
            "end": -1 if answer.end is None else answer.end,
            "is_impossible": answer.is_impossible,
        }
        return outputs | ({} if answer.null_odds is None else {"null_odds": answer.null_odds})

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features, first, lengths, starts, ends, is_cut = self._encode(texts)
        logits = self.network(features)
        # The original BERT also adds logits in double precision.
        start_logits, end_logits = (tf.cast(logits[name], tf.float64) for name in ("start_logits", "end_logits"))
        null = start_logits[:, 0] + end_logits[:, 0]
        has_span, places, span_logits = self._best_spans(start_logits, end_logits, first, lengths, null)
        score = span_logits[0] + span_logits[1]
        if self.settings["version_2_with_negative"]:
            odds = tf.where(has_span, null - span_logits[0] - span_logits[1], NO_ANSWER)
            is_impossible = ~has_span | (odds > self.settings["null_score_diff_threshold"])
        else:
            null = odds = tf.zeros_like(null)
            is_impossible = ~has_span
        codes, row_splits = code_points(texts["context"])
        start, end = (
            tf.where(is_impossible, 0, tf.gather(offsets, tf.maximum(place - first, 0), batch_dims=1))
            for offsets, place in zip((starts, ends), places, strict=True)
        )
        return {
            "answer": cut_out(codes, row_splits[:-1] + start, row_splits[:-1] + end),
            "start": tf.where(is_impossible, -1, start),
            "end": tf.where(is_impossible, -1, end),
            "score": tf.cast(tf.where(is_impossible, null, score), tf.float32),
            "null_odds": tf.cast(odds, tf.float32),
            "is_impossible": is_impossible,
            "is_cut": is_cut,
        }

    def _encode(
        self, texts: dict[str, tf.Tensor]
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Packs [CLS] question [SEP] context [SEP].

        Returns features [B, T]; position of the first context token and number of context tokens [B]; starts and ends
        of context tokens in characters [B, T]; is_cut [B].
        """
        questions = self.tokenizer.tokenize(texts["question"])
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts["context"])
        question_ids = questions[:, : self.settings["max_query_length"]]
        question_lengths, num_pieces = question_ids.row_lengths(), ids.row_lengths()
        lengths = tf.minimum(num_pieces, self.max_seq_length - 3 - question_lengths)
        shape = [None, self.max_seq_length]
        context_ids = tf.RaggedTensor.from_tensor(ids.to_tensor(shape=shape), lengths)
        features, _ = self._pack(question_ids, context_ids)
        # Pad to full length: as in the original BERT, padding competes for the n best starts and ends.
        features = {
            name: tf.pad(values, [[0, 0], [0, self.max_seq_length - tf.shape(values)[1]]])
            for name, values in features.items()
        }
        is_cut = (questions.row_lengths() > question_lengths) | (num_pieces > lengths)
        places = (starts.to_tensor(shape=shape), ends.to_tensor(shape=shape))
        return features, tf.cast(question_lengths, tf.int32) + 2, tf.cast(lengths, tf.int32), *places, is_cut

    def _best_spans(
        self, start_logits: tf.Tensor, end_logits: tf.Tensor, first: tf.Tensor, lengths: tf.Tensor, null: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Chooses spans like `tasks.question_answering.squad_answers`; ties go to the better start rank, then end rank.

        Returns has_span [B], the first and last positions of the spans [B], and their logits [B].
        """
        n = min(self.settings["n_best_size"], self.max_seq_length)
        n = self.max_seq_length if self.settings.get("use_all_places") else n
        # top_k puts the first of equal logits first. [B, n]
        (start_logits, starts), (end_logits, ends) = tf.math.top_k(start_logits, n), tf.math.top_k(end_logits, n)

        def is_context(places: tf.Tensor) -> tf.Tensor:
            return (places >= first[:, None]) & (places < (first + lengths)[:, None])

        spans = ends[:, None, :] - starts[:, :, None]  # [B, n, n]
        is_span = (spans >= 0) & (spans < self.settings["max_answer_length"])
        is_span &= is_context(starts)[:, :, None] & is_context(ends)[:, None, :]
        scores = tf.where(is_span, start_logits[:, :, None] + end_logits[:, None, :], -float("inf"))
        score, best = (values[:, 0] for values in tf.math.top_k(tf.reshape(scores, [-1, n * n]), 1))
        has_span = score > -float("inf")
        if self.settings["version_2_with_negative"] and self.settings["n_best_size"] == 1:
            # Only one candidate is kept: "no answer" if its score is higher.
            has_span &= score >= null
        start, end = best // n, best % n
        places = [tf.gather(values, rank, batch_dims=1) for values, rank in ((starts, start), (ends, end))]
        logits = [tf.gather(values, rank, batch_dims=1) for values, rank in ((start_logits, start), (end_logits, end))]
        return has_span, places, logits
