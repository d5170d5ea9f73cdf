"""Picks the text that best continues another text."""

from bert_keras.tasks.ability import Ability

ABILITIES = {
    "multiple_choice": Ability(
        predictor="choice.predictor.ChoicePicker",
        answer="choice.predictor.Choice",
        graph="choice.graph.ChoiceModel",
        head="multiple_choice",
        route="choose",
        settings={},
        purpose="picks the text that best continues another text",
        texts=("text", "choices"),
    ),
}
