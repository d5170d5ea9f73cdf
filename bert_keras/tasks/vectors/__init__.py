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
    ),
}
