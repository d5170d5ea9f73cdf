"""Masks tokens when records are read, differently in each epoch, not when they are built (RoBERTa, section 4.1)."""

import tensorflow as tf


def mask_batch(batch, masking, max_predictions_per_seq, seed):
    """Masks tokens of each example as `data_prep.pretraining.masking.mask_tokens` does, but no whole words or spans.

    Args:
        batch: dict of int32 [B, T] "input_ids" without masks and "input_mask".
        masking: dict of int "cls_id", "sep_id", "mask_id" and "vocab_size", and float "masked_lm_prob".
        max_predictions_per_seq: int, P; maximum number of tokens to choose.
        seed: int [2] tensor; the same seed and batch give the same masks.

    Returns:
        The batch with masked input_ids. Also masked_lm_positions (ascending) and masked_lm_ids int32 [B, P], and
        masked_lm_weights float32 [B, P].
    """
    ids, is_real = batch["input_ids"], batch["input_mask"] > 0
    length, seeds = tf.shape(ids)[1], tf.random.split(seed, 3)
    may_be_chosen = is_real & (ids != masking["cls_id"]) & (ids != masking["sep_id"])
    # float64 keeps an exact half of a token, which tf.round rounds to even, as Python does.
    num_tokens = tf.reduce_sum(tf.cast(is_real, tf.float64), axis=1)
    wanted = tf.cast(tf.round(num_tokens * masking["masked_lm_prob"]), tf.int32)
    num_chosen = tf.clip_by_value(wanted, 1, max_predictions_per_seq)  # [B]

    scores = tf.where(may_be_chosen, tf.random.stateless_uniform(tf.shape(ids), seeds[0]), -1.0)
    best, places = tf.math.top_k(scores, tf.minimum(max_predictions_per_seq, length))  # [B, min(P, T)]
    padding = [[0, 0], [0, tf.maximum(max_predictions_per_seq - length, 0)]]
    best, places = tf.pad(best, padding, constant_values=-1.0), tf.pad(places, padding)
    is_chosen = (tf.range(max_predictions_per_seq) < num_chosen[:, None]) & (best >= 0)
    positions = tf.sort(tf.where(is_chosen, places, length), axis=1)  # padding comes last
    is_chosen = positions < length
    positions = tf.where(is_chosen, positions, 0)
    chosen_ids = tf.gather(ids, positions, batch_dims=1)

    fate = tf.random.stateless_uniform(tf.shape(positions), seeds[1])
    others = tf.random.stateless_uniform(tf.shape(positions), seeds[2], 0, masking["vocab_size"], tf.int32)
    masked_ids = tf.where(fate < 0.8, masking["mask_id"], tf.where(fate < 0.9, chosen_ids, others))
    where = tf.where(is_chosen)  # [number of chosen tokens, 2]
    places = tf.stack([where[:, 0], tf.cast(tf.gather_nd(positions, where), tf.int64)], axis=1)
    return {
        **batch,
        "input_ids": tf.tensor_scatter_nd_update(ids, places, tf.gather_nd(masked_ids, where)),
        "masked_lm_positions": positions,
        "masked_lm_ids": tf.where(is_chosen, chosen_ids, 0),
        "masked_lm_weights": tf.cast(is_chosen, tf.float32),
    }
