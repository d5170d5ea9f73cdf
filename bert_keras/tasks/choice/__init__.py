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
        page={
            "title": "Choose the best continuation",
            "purpose": "The model compares several texts that could come next.",
            "button": "Choose",
            "hasTable": False,
            "fields": {
                "text": {"label": "Text", "rows": 2},
                "choices": {"label": "Choices, one per line", "rows": 3, "isList": True},
            },
            "examples": [
                {
                    "name": "Rain",
                    "text": "Dark clouds came over the hills, so she took her umbrella.",
                    "choices": "Soon it began to rain.\nShe put the umbrella into the oven.\nThe hills sang a song.",
                },
                {
                    "name": "Dinner",
                    "text": "He was hungry after the long walk.",
                    "choices": (
                        "He cooked soup and ate two plates.\nHe painted the walls blue.\nHe sold his shoes to a cloud."
                    ),
                },
            ],
        },
    ),
}
