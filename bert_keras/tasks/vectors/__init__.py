"""Training of vectors of texts: their data, losses and evaluation."""

from bert_keras.tasks.ability import Ability, Check, one_of

# Ways to make one vector of the vectors of tokens.
POOLINGS = ("cls", "mean", "max")
_LAYER: Check = 'a whole number or "embeddings"', lambda value: value == "embeddings" or type(value) is int

ABILITIES = {
    "vectors": Ability(
        predictor="vectors.predictor.Vectorizer",
        answer="vectors.predictor.TextVector",
        graph="vectors.graph.VectorModel",
        head=None,
        route="embeddings",
        settings={"pooling": one_of(*POOLINGS), "layer": _LAYER},
        purpose="turns a text into a vector",
        is_pretrained=True,
        outputs=("sequence_output", "pooled_output"),
        forms=("items", "openai", "one"),
        other_paths={"/embed": "vectors"},
        # The mean over the tokens of the second to last layer.
        served={"layer": "-2", "pooling": "mean"},
        page={
            "title": "Compare sentences",
            "purpose": (
                "Each sentence becomes a vector. The table has the cosine of each pair; 1 is the same direction."
            ),
            "button": "Compare",
            "hasTable": False,
            "fields": {"text": {"label": "Sentences, one per line", "rows": 4, "isItems": True}},
            "examples": [
                {
                    "name": "Meanings",
                    "text": (
                        "A dog runs across the field.\nA puppy is racing over the meadow.\nThe bank "
                        "raised its interest rates.\nLoans have become more expensive."
                    ),
                },
                {
                    "name": "Questions",
                    "text": (
                        "How do I reset my password?\nI cannot log in to my account.\nWhere is my parcel?\n"
                        "When will my order arrive?"
                    ),
                },
            ],
        },
    ),
}
