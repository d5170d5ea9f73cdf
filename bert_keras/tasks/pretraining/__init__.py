"""Pre-training: its input and its run."""

from bert_keras.tasks.ability import IDS, LENGTH, Ability

ABILITIES = {
    "fill_mask": Ability(
        predictor="pretraining.fill_mask.FillMask",
        answer="pretraining.fill_mask.FilledText",
        graph="pretraining.graph.FillMaskModel",
        head="masked_lm",
        route="fill-mask",
        settings={"top_k": LENGTH},
        purpose="predicts the word at each [MASK] of a text",
        is_fine_tuned=False,
        is_pretrained=True,
        inputs=(*IDS, "masked_lm_positions"),
        logits="masked_lm_logits",
    ),
    "next_sentence": Ability(
        predictor="pretraining.next_sentence.NextSentence",
        answer="pretraining.next_sentence.PairAnswer",
        graph="pretraining.graph.NextSentenceModel",
        head="next_sentence",
        route="next-sentence",
        settings={},
        purpose="estimates whether a text follows another",
        is_fine_tuned=False,
        is_pretrained=True,
        texts=("text_a", "text_b"),
        logits="next_sentence_logits",
    ),
    "replaced_tokens": Ability(
        predictor="pretraining.replaced_tokens.ReplacedTokenFinder",
        answer="pretraining.replaced_tokens.ReplacedTokens",
        graph="pretraining.graph.ReplacedTokensModel",
        head="replaced_token",
        route="replaced-tokens",
        settings={},
        purpose="finds the words that do not fit into a text",
        is_fine_tuned=False,
        is_pretrained=True,
    ),
    "score": Ability(
        predictor="pretraining.sentence_score.SentenceScorer",
        answer="pretraining.sentence_score.SentenceScore",
        head="masked_lm",
        route="score",
        is_fine_tuned=False,
        is_pretrained=True,
    ),
}
