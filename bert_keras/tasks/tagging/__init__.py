"""Tags of words, such as named entities."""

from bert_keras.settings.model_files import WORDS
from bert_keras.tasks.ability import NAMES, Ability, one_of

ABILITIES = {
    "token_classification": Ability(
        predictor="tagging.predictor.EntityTagger",
        answer="tagging.predictor.TaggedText",
        graph="tagging.graph.TagModel",
        head="token_classifier",
        route="entities",
        settings={"labels": NAMES, "words": one_of(*WORDS)},
        purpose="tags each word of a text",
        page={
            "title": "Find names in a text",
            "purpose": "The model marks people, places and whatever else its training data marks.",
            "button": "Find names",
            "hasTable": False,
            "fields": {"text": {"label": "Text", "rows": 3}},
            "examples": [
                {
                    "name": "Travel",
                    "text": "Maria Silva flew from Lisbon to Oslo and met Erik Dahl of Nordic Shipping in March.",
                },
                {"name": "Science", "text": "Marie Curie was born in Warsaw and worked at the University of Paris."},
            ],
        },
    ),
}
