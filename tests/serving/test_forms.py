"""The forms of requests: every field is checked by its name, in the words of JSON, as the description says."""

import random
import re

import extra_serve  # noqa: F401
import jsonschema
import numpy as np
import pytest
from fuzzed_requests import PYTHON_WORDS

from bert_keras.serving.answers import other_paths, task_forms
from bert_keras.serving.forms import explained_form, read_form
from bert_keras.serving.openapi import task_schemas
from bert_keras.serving.requests import RefusedError

VALUES = [None, True, False, 0, 1, -1, 0.75, 1e300, "", "a", "gradients", [], [None], ["a"], ["a", "b"], [["a"]], {}]
VALUES += [[["a", "b"]], {"text": "a"}, {"text": None}, {"text": ["a", "b"]}, {"a": 1}]


def forms_of(models):
    """Yield each form of each path, with its name for messages and an example of a body."""
    for model in models:
        for path in ("/v1", *(path for path, tasks in other_paths().items() if model.task in tasks)):
            for each in task_forms(model, path):
                form = each.make(model, 3)
                yield f"{model.task} {path} {form.key}", [each.make(model, 3) for each in task_forms(model, path)], form
        form = explained_form([model], layer={"type": "integer", "minimum": 0, "maximum": 1})
        yield f"{model.task} attention", [form], form


def valid_of(schema):
    """Return the simplest value of a schema."""
    if "anyOf" in schema:
        return valid_of(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    if schema["type"] == "array":
        return [valid_of(schema["items"])] * schema.get("minItems", 1)
    if schema["type"] == "object":
        return {name: valid_of(schema["properties"][name]) for name in schema["required"]}
    return {"string": "a", "integer": 1}[schema["type"]]


def refusal_of(forms, body):
    """Return the sentence with which a body is refused; None: it is accepted."""
    try:
        read_form(forms, body)
    except RefusedError as refused:
        return refused.detail
    return None


def test_the_check_agrees_with_json_schema_and_names_the_field(models):
    draw, num_refused, num_accepted = random.Random(4), 0, 0
    for name, forms, form in forms_of(models):
        validator, valid = jsonschema.Draft202012Validator(form.schema), valid_of(form.schema)
        assert read_form(forms, valid)[1] == valid, name
        fields = [*form.required, *form.optional, "wrong"]
        for _ in range(60):
            field, value = draw.choice(fields), draw.choice(VALUES)
            body = valid | {field: value}
            refusal = refusal_of(forms, body)
            assert (refusal is None) == validator.is_valid(body), (name, body, refusal)
            if refusal:
                assert f'"{field}"' in refusal, (name, body)
                assert not PYTHON_WORDS.search(refusal)
            num_refused, num_accepted = num_refused + bool(refusal), num_accepted + (not refusal)
    assert num_refused > 1000
    assert num_accepted > 100


def test_a_missing_field_and_null_for_each_optional_field(models):
    for name, forms, form in forms_of(models):
        valid = valid_of(form.schema)
        assert read_form(forms, valid | dict.fromkeys(form.optional))[1] == valid, name
        for field in form.required:
            refusal = refusal_of(forms, {key: value for key, value in valid.items() if key != field})
            assert f'"{field}"' in refusal, name


# Route, body, and the sentence of the answer with the status 422.
MISTAKES = [
    (
        "v1/embeddings",
        {"text": ["good", "bad"]},
        '"text" is ["good","bad"], but must be a text; several go into "items"',
    ),
    (
        "v1/embeddings",
        {"input": "a", "items": ["b"]},
        '"input" is not a field of a request with "items"; its fields are "items" and "mod',
    ),
    (
        "v1/embeddings",
        {"input": "a", "text": "b"},
        '"text" is not a field of a request with "input"; its fields are "input", ',
    ),
    ("v1/embeddings", {"input": [[1, 2]]}, 'number 1 of "input" is [1,2], but must be a text'),
    ("v1/embeddings", {"input": ["a", 2]}, 'number 2 of "input" is 2, but must be a text'),
    (
        "v1/embeddings",
        {"input": "a", "encoding_format": "int8"},
        '"encoding_format" is "int8", but must be "float" or "base64"',
    ),
    ("v1/embeddings", {"input": "a", "dimensions": 3}, '"dimensions" is 3, but the vectors have 16 numbers'),
    ("v1/embeddings", {"input": "a", "user": 7}, '"user" is 7, but must be a text'),
    (
        "v1/classify",
        {"model": "classification", "text": ["good", "bad"]},
        '"text_pair" is missing; this request needs "text" and "text_pair"',
    ),
    (
        "v1/classify",
        {"model": "classification", "items": [{"text": "a", "text_pair": 0}]},
        '"text_pair" of number 1 of "items" is 0, but must be a text',
    ),
    (
        "v1/classify",
        {"model": "classification", "text": "a", "text_pair": False},
        '"text_pair" is false, but must be a text',
    ),
    ("v1/classify", {"model": "classification", "text": "a", "text_pair": []}, '"text_pair" is [], but must be a text'),
    (
        "v1/classify",
        {"model": "multi_label", "text": "a", "text_pair": ""},
        '"text_pair" is not a field of a request with "text"; its fields are "text", "model", "top_k"',
    ),
    (
        "v1/classify",
        {"model": "multi_label", "text": "a", "top_k": "2"},
        '"top_k" is "2", but must be a whole number of 1 or more',
    ),
    (
        "v1/classify",
        {"model": "multi_label", "text": "a", "threshold": True},
        '"threshold" is true, but must be a number',
    ),
    (
        "v1/classify",
        {"model": "multi_label", "text": "a", "why": 1},
        '"why" is 1, but must be true, false or "gradients"',
    ),
    ("v1/classify", {"model": ["multi_label"], "text": "a"}, '"model" is ["multi_label"], but must be a text'),
    (
        "v1/classify",
        {"model": "multi_label", "texts": "a"},
        '"texts" is not a field of a request with "text"; do you mean "text"?',
    ),
    ("v1/classify", {"model": "multi_label"}, '"items" or "text" is missing; a request needs it'),
    ("v1/entities", {"text": "a", "why": "gradients"}, '"why" is "gradients", but must be true or false'),
    (
        "v1/fill-mask",
        {"text": "[MASK]", "candidates": "paris"},
        '"candidates" is "paris", but must be a list of one text or more',
    ),
    ("v1/answer", {"question": "a", "context": None}, '"context" is null, but must be a text'),
    ("v1/answer", {"items": ["a"]}, 'number 1 of "items" is "a", but must be an object with "question" and "context"'),
    ("v1/answer", {"question": "a", "context": " "}, "the request has no word in its context; give a context"),
    ("v1/choose", {"text": "a", "choices": ["b"]}, '"choices" is ["b"], but must be a list of two texts or more'),
    ("v1/tokens", {"model": "bert", "task": 3, "item": "a"}, '"task" is 3, but must be a text'),
    (
        "v1/tokens",
        {"model": "bert", "task": "vectors", "item": ["a", "b"]},
        '"item" is ["a","b"], but must be an object with "text" or a text',
    ),
    ("rerank", {"query": "a", "texts": "b"}, '"texts" is "b", but must be a list of one text or more'),
    (
        "rerank",
        {"query": "a", "texts": ["b"], "truncation_direction": "Left"},
        '"truncation_direction" is "Left", but must be "right", "Right" or "RIGHT"',
    ),
    (
        "rerank",
        {"query": "a", "documents": ["b"]},
        '"documents" is not a field of a request with "query" and "texts"; its fields are ',
    ),
    ("embed", {"inputs": []}, '"inputs" is [], but must be a list of one text or more'),
    ("embed", {"inputs": "a", "prompt_name": "query"}, '"prompt_name" is "query", but must be null'),
    (
        "embed",
        {"inputs": "he " * 40, "truncate": False},
        "a text is longer than the 26 tokens that the model takes; make it shorter",
    ),
    (
        "predict",
        {"model": "classification", "inputs": "a"},
        '"inputs" is "a", but must be a list of two texts or a list of one list or more',
    ),
    (
        "predict",
        {"model": "multi_label", "inputs": ["a", "b"]},
        '"inputs" is ["a","b"], but must be a text, a list of one text or ',
    ),
    ("predict", {"model": "multi_label", "inputs": "a", "raw_scores": True}, '"raw_scores" is true, but must be false'),
]


@pytest.mark.parametrize(("route", "body", "message"), MISTAKES)
def test_a_field_that_is_not_valid_is_named(server, route, body, message):
    import requests

    response = requests.post(f"{server.url}/{route}", json=body, timeout=60)
    error = response.json()["error"]
    assert (response.status_code, error[: len(message)]) == (422, message)
    assert not PYTHON_WORDS.search(error)


def test_the_forms_of_other_servers(server, ask, answers_of):
    import requests

    def post(path, **body):
        response = requests.post(f"{server.url}/{path}", json=body, timeout=60)
        assert response.status_code == 200, response.text
        return response.json()

    query = {"query": "he was hungry", "texts": ["so he ate", "paris", "a b c d e"]}
    [expected] = answers_of("rerank", [query])
    nulls = dict.fromkeys(("truncate", "truncation_direction", "raw_scores", "return_text", "model"))
    for given in ({}, nulls, {"truncation_direction": "Right"}, {"truncation_direction": "right", "truncate": True}):
        found = post("rerank", **query, **given)
        assert [each["index"] for each in found] == [each["index"] for each in expected["texts"]]
        assert found == ask("rerank", query | given)[1]
    texts = ["he was hungry", "paris"]
    vectors = np.array([answer["vector"] for answer in answers_of("vectors", texts)])
    np.testing.assert_allclose(post("embed", inputs=texts, normalize=False), vectors, atol=1e-5)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(post("embed", inputs=texts, normalize=None, truncate=None), units, atol=1e-5)
    np.testing.assert_allclose(post("embed", inputs=texts[1], dimensions=16), units[1:], atol=1e-5)
    found = post("v1/embeddings", input=texts, encoding_format=None, user=None, dimensions=None)
    np.testing.assert_allclose([each["embedding"] for each in found["data"]], vectors, atol=1e-5)
    [one, other] = answers_of("multi_label", texts)
    ranks = [sorted(answer["probabilities"].items(), key=lambda pair: -pair[1]) for answer in (one, other)]
    found = post("predict", model="multi_label", inputs=texts[0], raw_scores=False)
    assert [(each["label"], pytest.approx(each["score"], abs=1e-5)) for each in found] == ranks[0]
    found = post("predict", model="multi_label", inputs=[[text] for text in texts], truncation_direction=None)
    assert [[each["label"] for each in labels] for labels in found] == [[name for name, _ in rank] for rank in ranks]
    [answer] = answers_of("classification", [{"text": "he", "text_pair": "so"}])
    for inputs, part in ((["he", "so"], lambda found: found), ([["he", "so"]], lambda found: found[0])):
        found = part(post("predict", model="classification", inputs=inputs))
        assert (found[0]["label"], sum(each["score"] for each in found)) == (answer["label"], pytest.approx(1))


def test_replies_are_as_described(server, models):
    import requests

    bodies = {
        "/rerank": {"query": "he", "texts": ["a", "b"]},
        "/embed": {"inputs": ["a", "b"]},
        "/predict": {"model": "multi_label", "inputs": [["a"]]},
    }
    for path, body in bodies.items():
        schemas = {}
        sent, example, received = task_schemas(path, [m for m in models if m.task in other_paths()[path]], 3, schemas)
        for each in (body, example):
            response = requests.post(f"{server.url}{path}", json=each, timeout=60)
            assert response.status_code == 200, response.text
            jsonschema.validate(each, sent | {"components": {"schemas": schemas}})
            jsonschema.validate(response.json(), {**received, "components": {"schemas": schemas}})


def test_words_of_python_are_recognised():
    for text in ("is None, but", "of type NoneType", "is True", "('a', [])", "is 'a'", "of type str"):
        assert PYTHON_WORDS.search(text), text
    assert not re.search(PYTHON_WORDS, '"text" is ["None of it", null, true, 3], but must be a text')
