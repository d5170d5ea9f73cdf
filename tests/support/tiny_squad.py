"""SQuAD files of an artificial language, in which the words of a question determine its answer."""

import json
import random

from known_models import make_config, write_model

from bert_keras.modeling import PretrainingModel

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "where", "what", "is", "lives", ",", "."]
NAMES = ["ada", "bob", "eve", "joe", "kim", "lee", "max", "tom"]
PLACES = ["rome", "oslo", "bonn", "lima", "york", "pisa"]
VOCABULARY = [*TOKENS, *NAMES, *PLACES, *(f"##{letter}" for letter in "abcdefghij")]
# With these flags a tiny model learns the language.
LEARNING = {
    "max_seq_length": 12,
    "doc_stride": 4,
    "max_query_length": 4,
    "max_answer_length": 4,
    "n_best_size": 5,
    "train_batch_size": 16,
    "learning_rate": 0.001,
    "num_train_epochs": 8,
}


def paragraphs(num_paragraphs, seed, with_impossible=False):
    """Makes texts with the questions "who lives" and "where lives"; version 2 also asks about a missing place."""
    draw = random.Random(seed)
    made = []
    for number in range(num_paragraphs):
        name, place = draw.choice(NAMES), draw.choice(PLACES)
        words = ["."] * draw.randint(0, 4) + [name, "lives", place] + [","] * draw.randint(0, 4)
        has_place = not with_impossible or draw.random() < 0.5
        context = " ".join(words if has_place else [word for word in words if word != place]).capitalize()
        asked = [("who", name), ("where", place if has_place else None)]
        qas = []
        for word, answer in asked:
            start = context.lower().find(answer) if answer else None
            answers = [{"text": context[start : start + len(answer)], "answer_start": start}] if answer else []
            question = {"id": f"{seed}-{number}-{word}", "question": f"{word} lives", "answers": answers}
            qas.append({**question, "is_impossible": not answer} if with_impossible else question)
        made.append({"context": context, "qas": qas})
    return made


def write_squad(path, paragraphs_of_file):
    """Writes a SQuAD JSON file of one article and returns its path as a str."""
    article = {"title": "Towns", "paragraphs": paragraphs_of_file}
    path.write_text(json.dumps({"version": "made up", "data": [article]}), encoding="utf-8")
    return str(path)


def without_answers(paragraphs_of_file):
    """Returns the same texts and questions without answers, as for prediction."""
    return [
        {
            "context": paragraph["context"],
            "qas": [{key: question[key] for key in ("id", "question")} for question in paragraph["qas"]],
        }
        for paragraph in paragraphs_of_file
    ]


def write_start(folder):
    """Writes a model of random weights for this language and returns its folder."""
    config = make_config(
        vocab_size=len(VOCABULARY),
        num_hidden_layers=1,
        hidden_size=32,
        hidden_act="gelu",
        max_position_embeddings=32,
        # Large enough to learn the language in a few seconds.
        initializer_range=0.2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return write_model(folder, PretrainingModel(config), VOCABULARY)
