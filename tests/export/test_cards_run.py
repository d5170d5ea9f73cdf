"""The code in model cards gives the answers of this project, where this project is not installed."""

import ast

import pytest
from fine_tuned_models import FINE_TUNED, OF_VECTORS, write_fine_tuned
from known_models import small_config
from rounding import flat
from tiny_exports import PRETRAINED, converters_in_this_process, open_pretrained, run_card

from bert_keras.export.card.usage_examples import example_texts
from bert_keras.export.export_folder import write_export
from bert_keras.export.source import Source
from bert_keras.modeling import SentenceModel
from bert_keras.prediction import open_model

# The texts of the example fit.
OTHERS = {
    "classification": {"max_seq_length": 24},
    "question_answering": {"max_query_length": 12},
    "multiple_choice": {"max_seq_length": 24},
    "rerank": {"max_seq_length": 24},
}


# Whether the code prints the answer of a predictor, by task.
CHECKS = {
    "classification": lambda printed, answer: flat(ast.literal_eval(printed)) == flat(answer.probabilities),
    "multi_label": lambda printed, answer: flat(ast.literal_eval(printed)) == flat(answer.probabilities),
    "regression": lambda printed, answer: flat(float(printed)) == flat(answer.value),
    "multiple_choice": lambda printed, answer: printed.strip() == answer.choices[answer.index],
    "rerank": lambda printed, answer: (
        flat([[float(line.split()[0]), line.split(maxsplit=1)[1]] for line in printed.splitlines()])
        == flat([[each.score, each.text] for each in answer.texts])
    ),
    "question_answering": lambda printed, answer: printed.strip() == answer.text,
    "token_classification": lambda printed, answer: (
        [line.split() for line in printed.splitlines()] == [[word.word, word.tag] for word in answer.words]
    ),
    "vectors": lambda printed, answer: flat(ast.literal_eval(printed)) == flat(answer.vector),
    "fill_mask": lambda printed, answer: ast.literal_eval(printed) == [guess.token for guess in answer.masks[0]],
    "next_sentence": lambda printed, answer: flat(float(printed)) == flat(answer.probability),
    "replaced_tokens": lambda printed, answer: (
        flat([[token, float(number)] for token, number in map(str.split, printed.splitlines())])
        == flat([[each.token, each.probability] for each in answer.tokens])
    ),
}


def source_of(task, folder):
    """Writes a tiny model of a task into a folder. Returns it as a Source."""
    if task in PRETRAINED and task != "vectors":
        return Source("tiny", *open_pretrained(folder, task))
    if task == "vectors":
        make, settings = (lambda: SentenceModel(small_config(num_hidden_layers=1))), OF_VECTORS
    else:
        make, settings = FINE_TUNED[task]
    predictor = open_model(write_fine_tuned(folder, make(), task, **settings | OTHERS.get(task, {})))
    return Source("tiny", predictor, predictor.settings)


@pytest.mark.slow
@pytest.mark.parametrize("task", CHECKS)
def test_the_code_answers_as_the_model(tmp_path, task):
    source, folder = source_of(task, tmp_path / "run"), tmp_path / "export"
    folder.mkdir()
    # The formats share the code that reads the outputs.
    formats = ["onnx", "litert"] if task in ("classification", "fill_mask", "question_answering") else ["onnx"]
    with converters_in_this_process():
        write_export(source, folder, formats, quantize=None, max_loss=0.05)
    texts = tuple(example_texts(source.settings).values())
    answer = source.predictor(texts if len(texts) > 1 else texts[0])
    for printed in run_card(folder):
        assert CHECKS[task](printed, answer), (printed, answer)
