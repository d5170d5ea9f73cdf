"""A question and a text in, the place of the answer out: what run_squad.py trains.

Axes: B batch, T tokens, P pieces of contexts, n places that are looked at for each end of an answer.
"""

import tensorflow as tf

from bert_keras.data_prep.tasks.squad_answers import NO_ANSWER
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.graph.text_model import TextModel
from bert_keras.export.graph.tokenization import GraphTokenizer, code_points, cut_out


class SpanModel(TextModel):
    """Finds the answers to questions in texts, as `QuestionAnswerer` does where a single window is enough.

    Inputs: "question" and "context", string [B]. A question is cut to max_query_length pieces, a context to those that
    then fit.

    Answers: "answer" string [B], what stands in the context, "" for none; "start", "end" int32 [B], its place there in
    characters as decoded, -1 for none; "score" float32 [B], the sum of the logits of its ends, or for none of those of
    [CLS] (0 in models that always answer); "null_odds" float32 [B], how much more speaks for none than for the best one
    (a difference of such sums; 1000000 where no span can be one; 0 in models that always answer); "is_impossible"
    bool [B], whether there is none.

    Args:
        network, tokenizer, settings: see `TextModel`; settings has what the task.json of run_squad.py says. Its
            answer_text is not looked at: here the answer is what stands in the context.

    Raises:
        ValueError: max_seq_length leaves no room for a context; or see `TextModel`.
    """

    inputs = {"question": [None], "context": [None]}

    def __init__(self, network: IdsNetwork, tokenizer: GraphTokenizer, settings: dict):
        super().__init__(network, tokenizer, settings)
        if self.max_seq_length <= settings["max_query_length"] + 3:
            raise ValueError(
                f"max_seq_length={self.max_seq_length} leaves no room for a text beside max_query_length="
                f"{settings['max_query_length']} pieces of a question and 3 special tokens; take the task.json that "
                "the training wrote"
            )

    def _answer(self, texts):
        features, first, lengths, starts, ends, is_cut = self._encode(texts)
        logits = self.network(features)
        # As in the release logits are added up in double precision.
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
            tf.where(is_impossible, 0, tf.gather(of_pieces, tf.maximum(place - first, 0), batch_dims=1))
            for of_pieces, place in zip((starts, ends), places, strict=True)
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

    def _encode(self, texts):
        """Makes the rows [CLS] question [SEP] context [SEP].

        Returns:
            the features of the network, int32 [B, T]; where contexts begin in their rows and how many pieces of them
            are there, int32 [B]; where pieces start and end in their contexts, int32 [B, T]; is_cut bool [B].
        """
        questions = self.tokenizer.tokenize(texts["question"])
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts["context"])
        asked = questions[:, : self.settings["max_query_length"]]
        num_asked, num_pieces = asked.row_lengths(), ids.row_lengths()
        lengths = tf.minimum(num_pieces, self.max_seq_length - 3 - num_asked)
        shape = [None, self.max_seq_length]
        shown = tf.RaggedTensor.from_tensor(ids.to_tensor(shape=shape), lengths)
        features, _ = self._pack(asked, shown)
        # All rows are of full length: as in the release, the scores of padding are among those that are looked at.
        features = {
            name: tf.pad(values, [[0, 0], [0, self.max_seq_length - tf.shape(values)[1]]])
            for name, values in features.items()
        }
        is_cut = (questions.row_lengths() > num_asked) | (num_pieces > lengths)
        places = (starts.to_tensor(shape=shape), ends.to_tensor(shape=shape))
        return features, tf.cast(num_asked, tf.int32) + 2, tf.cast(lengths, tf.int32), *places, is_cut

    def _best_spans(self, start_logits, end_logits, first, lengths, null):
        """Chooses spans as `data_prep.tasks.squad_answers` does; of equal ones the first by the ranks of their starts
        and ends.

        Returns:
            bool [B], whether there is a span; int32 [B] each, its first and last place in the row; float64 [B] each,
            their logits.
        """
        n = min(self.settings["n_best_size"], self.max_seq_length)
        # Of equal logits the first place goes first. [B, n]
        (start_logits, starts), (end_logits, ends) = tf.math.top_k(start_logits, n), tf.math.top_k(end_logits, n)

        def is_context(places):
            return (places >= first[:, None]) & (places < (first + lengths)[:, None])

        spans = ends[:, None, :] - starts[:, :, None]  # [B, n, n]
        is_span = (spans >= 0) & (spans < self.settings["max_answer_length"])
        is_span &= is_context(starts)[:, :, None] & is_context(ends)[:, None, :]
        scores = tf.where(is_span, start_logits[:, :, None] + end_logits[:, None, :], -float("inf"))
        score, best = (values[:, 0] for values in tf.math.top_k(tf.reshape(scores, [-1, n * n]), 1))
        has_span = score > -float("inf")
        if self.settings["version_2_with_negative"] and n == 1:
            # The one answer that is kept is then that there is none, if more speaks for it.
            has_span &= score >= null
        start, end = best // n, best % n
        places = [tf.gather(values, rank, batch_dims=1) for values, rank in ((starts, start), (ends, end))]
        logits = [tf.gather(values, rank, batch_dims=1) for values, rank in ((start_logits, start), (end_logits, end))]
        return has_span, places, logits
