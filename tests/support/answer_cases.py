"""The table tests/cases/answers.json, which Python and JavaScript must answer alike, and both ways to answer it.

A network of a case is a sum or a list of rows of numbers, one for each token, so both languages compute the same.
"""

import functools
import json
import math
import pathlib
import types

import tensorflow as tf
from node import run_node

from bert_keras.data_prep.text.places import describe
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.words import split_words
from bert_keras.export.formats.web_tokenizer import unicode_tables
from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import Limits
from bert_keras.prediction.containers import given_fields
from bert_keras.prediction.network import Network
from bert_keras.tasks import ability_of
from bert_keras.tasks import predictor_of as class_of
from bert_keras.tasks.graph.text_model import text_names

TABLE = json.loads((pathlib.Path(__file__).parents[1] / "cases" / "answers.json").read_text(encoding="utf-8"))
# The parts of an answer that the table has as lists of their values.
PARTS = {
    "entities": ("text", "type", "start", "end", "probability"),
    "n_best": ("text", "probability", "start", "end"),
    "words": ("word", "start", "end", "weight", "field"),
    "sequences": ("token", "start", "end", "text"),
}

IN_NODE = """
import { Tokenizer } from "./tokenizer.js";
import { answer, encode, lengthOf, optionsOf } from "./web_answers.js";
import { WordSplitter } from "./web_words.js";

const numbers = (rows) => ({ data: Float32Array.from(rows.flat()), dims: [1, rows.length, rows[0].length] });

function outputsOf({ task, rows }, features) {
  const ofTokens = [...features.input_ids].map((id) => rows[id]);
  if (task === "fill_mask") {
    const ofVocabulary = rows.map(([value]) => value);
    return { logits: numbers([...features.masked_lm_positions].map(() => ofVocabulary)) };
  }
  if (task === "question_answering") {
    const [start, end] = [0, 1].map((place) => numbers(ofTokens.map((row) => [row[place]])));
    return { start_logits: start, end_logits: end };
  }
  if (task === "vectors") return { sequence_output: numbers(ofTokens) };
  if (task === "token_classification" || task === "replaced_tokens") return { logits: numbers(ofTokens) };
  return { logits: numbers([ofTokens.reduce((sum, row) => sum.map((value, place) => value + row[place]))]) };
}

async function answered({ model, item, options }) {
  const chosen = optionsOf(model, options);
  const encoded = encode(model, item, "the request", chosen);
  const found = await answer(model, item, encoded, chosen, async (features) => outputsOf(model.network, features));
  const described = ({ id, start, end, text }) => ({ token: model.tokenizer.token(id), start, end, text });
  const sequences = encode(model, item, "the request").sequences.map(({ tokens }) => tokens.map(described));
  return { ...found, ...lengthOf(model, item, encoded), sequences };
}

async function main({ tokens, tables, limits, texts, cases }) {
  const tokenizers = tables.map((each) => new Tokenizer(each.tokenizer, tokens));
  const splitter = new WordSplitter(tables[0]);
  const whiteSpace = new Set([...tables[0].white_space].map((char) => char.codePointAt(0)));
  const found = { texts: [], answers: [] };
  for (const { text, do_lower_case: isLower } of texts) {
    const tokenizer = tokenizers[Number(isLower)];
    const ofText = tokenizer.tokenize(text).map(({ id, start, end }) => [tokenizer.token(id), start, end]);
    found.texts.push({ tokens: ofText, words: splitter.split(text) });
  }
  for (const each of cases) {
    const model = { ...each.model, name: "tiny", limits, tokenizer: tokenizers[1], splitter, whiteSpace };
    try {
      found.answers.push(await answered({ ...each, model }));
    } catch (error) {
      if (error.constructor !== Error) throw error;
      found.answers.push({ error: error.message });
    }
  }
  return found;
}
"""


@functools.cache
def tokenizer_of(do_lower_case=True):
    return FullTokenizer(TABLE["tokens"], do_lower_case)


def settings_of(case):
    """Returns the task.json of the model of a case."""
    return {**TABLE["models"][case["model"]]["settings"], **case.get("settings", {})}


def rows_of(case):
    """Returns the numbers of each token of the vocabulary, a list of lists."""
    weights = TABLE["models"][case["model"]]["weights"]
    nothing = [0.0] * len(next(iter(weights.values())))
    return [weights.get(token, nothing) for token in TABLE["tokens"]]


def predictor_of(case):
    """Returns the predictor of a case, whose network is the table of its rows."""
    settings, table = settings_of(case), tf.constant(rows_of(case), tf.float32)
    task, kind = settings["task"], class_of(settings["task"])

    def call(features):
        of_tokens = tf.gather(table, features["input_ids"])  # [B, T, C]
        if task == "fill_mask":
            masked = tf.ones_like(features["masked_lm_positions"], tf.float32)
            return {"masked_lm_logits": masked[:, :, None] * table[:, 0]}
        if task == "question_answering":
            return {"start_logits": of_tokens[:, :, 0], "end_logits": of_tokens[:, :, 1]}
        if task == "replaced_tokens":
            return {"logits": of_tokens[:, :, 0]}
        if task == "vectors":
            return {"sequence_output": of_tokens}
        summed = tf.reduce_sum(of_tokens, axis=1)
        return {ability_of(task).logits: of_tokens if task == "token_classification" else summed}

    predictor = kind.__new__(kind)
    predictor.settings, predictor.max_seq_length = settings, settings["max_seq_length"]
    predictor.tokenizer = tokenizer_of()
    predictor.folder, predictor.limits, predictor.model, predictor.long = "tiny", Limits(), call, "error"
    predictor.files, predictor._format = types.SimpleNamespace(is_export=True), "onnx"
    predictor.config = types.SimpleNamespace(
        vocab_size=len(TABLE["tokens"]), is_decoder=False, num_hidden_layers=1, has_pooler=True
    )
    predictor._names = predictor._shared = None
    predictor._given = {}
    predictor._prepare()
    lengths, specs = predictor._lengths(), predictor.extra_specs
    predictor.network = Network(predictor._call, predictor._read_out, lengths, 4, extra_specs=specs)
    return predictor


def answer_of_python(case):
    """Returns the answer of Python to a case, with its length and its tokens, as JavaScript returns it."""
    item, predictor = case["item"], predictor_of(case)
    values = tuple(item.values())
    try:
        [(answer, is_cut)] = predictor.pipe_with_cuts(
            [values[0] if len(values) == 1 else values], ["the request"], **case.get("options", {})
        )
        sequences = [describe(predictor.tokenizer, tokens) for tokens, _ in predictor.tokens(item, "the request")]
    except Mistake as error:
        return {"error": str(error)}
    fields = json.loads(json.dumps(given_fields(answer), default=vars))
    return fields | {"num_tokens": predictor.num_tokens(values), "is_cut": is_cut, "sequences": sequences}


def text_of_python(case):
    """Returns the tokens and the words of a text with their places."""
    found = tokenizer_of(case["do_lower_case"]).tokenize_with_offsets(case["text"])
    return {"tokens": [list(token) for token in found], "words": [list(word) for word in split_words(case["text"])]}


def found_in_node(folder):
    """Returns what JavaScript makes of the texts and of the cases of the table."""
    cases = []
    for case in TABLE["answers"]:
        settings = settings_of(case)
        network = {"task": settings["task"], "rows": rows_of(case)}
        model = {"settings": settings, "fields": text_names(settings), "network": network}
        cases.append({"model": model, "item": case["item"], "options": case.get("options", {})})
    given = {"tokens": TABLE["tokens"], "limits": vars(Limits()), "texts": TABLE["texts"], "cases": cases}
    return run_node(
        folder,
        IN_NODE,
        given | {"tables": [unicode_tables(FullTokenizer(["[UNK]"], is_uncased)) for is_uncased in (False, True)]},
    )


def differences_of(case, answer):
    """Returns where an answer differs from that of a case, which may leave out fields, and a part of an error."""
    if "error" in case or "error" in answer:
        error, expected = answer.get("error", ""), case.get("error", "an answer")
        return [] if expected in error else [f"{error or answer!r} is not {expected!r}"]
    short = {name: _short(PARTS[name], value) if name in PARTS else value for name, value in answer.items()}
    return [*_differences(case["answer"], short, "")]


def _short(names, value):
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    return [_short(names, each) for each in value]


def _differences(expected, found, place):
    if isinstance(expected, dict) and isinstance(found, dict):
        for name, value in expected.items():
            yield from _differences(value, found.get(name, "nothing"), f"{place}.{name}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif isinstance(expected, float) and isinstance(found, int | float):
        if not math.isclose(expected, found, abs_tol=2e-5):
            yield f"{place} is {found}, not {expected}"
    elif expected != found:
        yield f"{place} is {found!r}, not {expected!r}"
