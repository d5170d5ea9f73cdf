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
        page={
            "title": "Fill in a word",
            "purpose": "The model guesses the word at each [MASK]. Choose a guess to put it into the text.",
            "button": "Guess",
            "hasTable": False,
            "fields": {"text": {"label": "Text with [MASK]", "rows": 2}},
            "options": {
                "top_k": {"label": "Guesses", "type": "number", "min": 1, "max": 50, "value": 5},
                "candidates": {"label": "Only these words", "type": "text", "placeholder": "any word", "isWords": True},
            },
            "examples": [
                {"name": "Capital", "text": "Paris is the [MASK] of France."},
                {"name": "Two words", "text": "The [MASK] flows from the mountains to the [MASK]."},
                {"name": "Pronoun", "text": "The doctor said that [MASK] would be back in an hour."},
            ],
        },
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
        page={
            "title": "Does one sentence follow another?",
            "purpose": "The model gives the probability that the second text comes right after the first.",
            "button": "Compare",
            "fields": {"text_a": {"label": "First text", "rows": 2}, "text_b": {"label": "Second text", "rows": 2}},
            "examples": [
                {
                    "name": "Follows",
                    "text_a": "The train was late again.",
                    "text_b": "We waited on the platform for an hour.",
                },
                {
                    "name": "Does not follow",
                    "text_a": "The train was late again.",
                    "text_b": "Bees store honey in cells of wax.",
                },
            ],
        },
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
        page={
            "title": "Which words do not fit?",
            "purpose": "The model gives each token the probability that another word was there.",
            "button": "Check",
            "hasTable": False,
            "fields": {"text": {"label": "Text", "rows": 3}},
            "examples": [
                {"name": "Cook", "text": "The chef read the soup before he served it."},
                {"name": "Weather", "text": "Dark clouds came over the hills, and soon it began to sing."},
            ],
        },
    ),
    "score": Ability(
        predictor="pretraining.sentence_score.SentenceScorer",
        answer="pretraining.sentence_score.SentenceScore",
        head="masked_lm",
        route="score",
        is_fine_tuned=False,
        is_pretrained=True,
        page={
            "title": "How natural is a sentence?",
            "purpose": (
                "The model hides one word at a time and gives its probability. Lower perplexity is more natural."
            ),
            "button": "Score",
            "hasTable": False,
            "fields": {"text": {"label": "Sentences, one per line", "rows": 4, "isItems": True}},
            "examples": [
                {
                    "name": "Word order",
                    "text": "The children are playing in the garden.\nThe children garden are in playing the.",
                },
                {"name": "Grammar", "text": "She walks to school every day.\nShe walk to school every day."},
            ],
        },
    ),
}
