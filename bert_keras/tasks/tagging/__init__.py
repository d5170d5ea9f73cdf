"""Tags of words, such as named entities."""

from bert_keras.settings.choices import TAGGERS
from bert_keras.tasks.ability import NAMES, Ability, one_of

ABILITIES = {
    "token_classification": Ability(
        predictor="tagging.predictor.EntityTagger",
        answer="tagging.predictor.TaggedText",
        graph="tagging.graph.TagModel",
        head="token_classifier",
        route="entities",
        settings={"labels": NAMES, "tagger": one_of(*TAGGERS)},
        purpose="tags each word of a text",
    ),
}
