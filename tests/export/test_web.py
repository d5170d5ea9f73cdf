"""A web folder: its answers in Node equal those of Python, its errors are sentences, and it opens in Chromium."""

import contextlib
import functools
import json
import random
import re

import numpy as np
import pytest
from guards import at_least
from http_servers import static_host
from known_models import TOKENS
from node import run_node
from reference_tokenizer import random_texts
from server_page import Page, check_words
from tiny_web import open_web

from bert_keras.data_prep.text.vocabulary_files import tokenizer_config_text
from bert_keras.export.checks.texts import built_in_texts, items_of
from bert_keras.export.checks.web_check import answers_in_node, run_in_node, tokens_in_node, tokens_of_python
from bert_keras.prediction import FeatureExtractor
from bert_keras.storage.tokenizer.keys import TextRules
from bert_keras.tasks import abilities

pytestmark = pytest.mark.slow  # converts models, starts Node

LONG = " ".join(f"he was hungry {number} so, she ate a {letter}." for number, letter in enumerate("abcdefghijkl"))


@pytest.fixture(scope="module")
def of_task(tmp_path_factory):
    """Return a function that returns the web folder of the tiny model of a task, with the model in Python."""
    folder = tmp_path_factory.mktemp("web")
    return functools.cache(lambda task: open_web(folder / task, task))


def pair(text, text_pair):
    return {"text": text, "text_pair": text_pair}


def question(question, context):
    return {"question": question, "context": context}


def test_pairs_are_classified_whole_cut_and_in_windows(of_task, tmp_path):
    web = of_task("classification")
    items = [pair("he ate", "so"), pair("he ate", ""), pair(LONG, LONG), pair("so", LONG), pair("\u200b", "x 👨 é")]
    items += [pair("he ate", blank) for blank in (" ", "\t\n", "\u200b", "\u3164")]
    found = web.check(*items)
    assert found[1]["text_pair"] == ""
    # The last one is a token, though nobody sees it.
    assert {json.dumps(each["probabilities"]) for each in found[5:8]} == {json.dumps(found[1]["probabilities"])}
    assert len(web.check(*items, top_k=2)[0]["probabilities"]) == 2
    windows = web.changed(tmp_path / "windows", doc_stride=4).check(*items)
    assert windows[0] == found[0]
    assert windows[2]["probabilities"] != found[2]["probabilities"]


def test_the_sequences_of_words_are_limited(of_task, tmp_path):
    limited = of_task("classification").changed(tmp_path / "limited", doc_stride=4)
    described = json.loads((limited.folder / "model.json").read_text())
    described["limits"]["max_sequences"] = 8
    (limited.folder / "model.json").write_text(json.dumps(described))
    message = (
        r"^The request has \d+ sequences for its words, each hidden once, but at most 8 are allowed; make it shorter\.$"
    )
    item = pair("\U0001f468 Walking-walked é He  was", "so he ate")
    assert re.search(message, answers_in_node(limited.folder, [item], why=True)[0])


def test_vectors(of_task, tmp_path):
    items = [{"text": "he was hungry"}, {"text": LONG}]
    web = of_task("vectors")
    web.check(*items)
    checkpoint = web.folder.parents[1] / "run"
    for pooling, prefix in (("cls", ""), ("max", ""), ("mean", "he was ")):
        changed = web.changed(tmp_path / pooling, pooling=pooling, prefix=prefix, normalize=bool(prefix))
        found = [answer["vector"] for answer in answers_in_node(changed.folder, items)]
        features = FeatureExtractor(checkpoint, [-1], pooling, 16)([prefix + item["text"] for item in items])
        expected = np.concatenate([each.values for each in features])
        assert tokens_in_node(changed.folder, items) == tokens_of_python(changed.live, items)
        if prefix:
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_the_answers_and_tokens_of_each_task_are_those_of_python(of_task):
    """The rules of answers are in tests/cases/answers.json."""
    for task in abilities(is_exported=True):
        web = of_task(task)
        items = items_of(built_in_texts(web.live.settings))
        web.check(*items)
        pairs = zip(tokens_of_python(web.live, items), tokens_in_node(web.folder, items), strict=True)
        same = [expected == found for expected, found in pairs if isinstance(expected, list)]
        assert same == [True] * len(at_least(3, same)), task


def test_random_texts(of_task):
    draw = random.Random(5)
    words = [token.removeprefix("##") for token in TOKENS[5:]]
    odd = [text for text in random_texts(1000, words) if not re.search("[\ud800-\udfff]", text)]

    def text(most):
        return " ".join(draw.choice((words, odd))[draw.randrange(len(words))] for _ in range(draw.randrange(1, most)))

    of_task("question_answering").check(*(question(f"who {text(6)}", f"he {text(30)}") for _ in range(100)))
    of_task("token_classification").check(*({"text": f"he {text(30)}"} for _ in range(100)))


def test_a_special_token_that_looks_like_a_piece_is_a_word(tmp_path):
    config = tokenizer_config_text(True, None, rules=TextRules(("##ing", "[UNK]"), is_foreign=True))
    web = open_web(tmp_path, "token_classification", config, words="transformers")
    [answer] = web.check({"text": "##ing walking##ing##ing he"})
    assert [word["word"] for word in answer["words"]] == ["##ing", "walking", "##ing", "##ing", "he"]


def test_every_task_is_described(of_task):
    for task in abilities(is_exported=True):
        web = of_task(task)
        [result] = run_in_node(web.folder, [["models"]])
        [model] = result["value"]
        assert (model["task"], model["num_layers"]) == (task, None)
        in_browser = task not in ("question_answering", "token_classification")
        assert model["options"] == [name for name in web.live.options if in_browser or name != "why"]
        assert model["labels"] == (web.live.labels if getattr(web.live, "labels", None) else None)


# Task -> item, options and error.
MISTAKES = {
    "regression": [
        ({"text": " \t\u200b\u3164"}, {}, "The request has no word in its text; give a text."),
        ({"words": "a"}, {}, 'The request has "words", but the model run needs "text".'),
        ("a", {}, 'The request is not an object, but one with "text" is needed.'),
        ({"text": 3}, {}, "The request has a text that is not a text; give a text."),
        ({"text": "a"}, {"top_k": 1}, '"top_k" is not a field of this request; its options are: why.'),
        ({"text": "a"}, {"why": 1}, "Why is 1, but must be true or false."),
        (
            {"text": "a"},
            {"why": "gradients"},
            'Why is "gradients", which an export does not have; give true, or take the model of the run.',
        ),
        ({"text": "a \ud800"}, {}, "The request: character 3 of its text is half of a surrogate pair; remove it."),
        (
            {"text": "a" * 1_000_001},
            {},
            "The request has 1000001 characters, but at most 1000000 are allowed; make it shorter.",
        ),
    ],
    "multi_label": [
        ({"text": "a"}, {"top_k": 4}, "Top_k is 4, but must be a whole number from 1 to 3."),
        ({"text": "a"}, {"threshold": 2}, "Threshold is 2, but must be a number from 0 to 1."),
    ],
    "multiple_choice": [
        ({"text": "a", "choices": ["b"]}, {}, "The request has no list of choices; give two or more."),
        ({"text": "a", "choices": ["b", ""]}, {}, "The request has no word in its choice 2; give a choice 2."),
    ],
    "rerank": [
        ({"query": "a", "texts": []}, {}, "The request has no list of texts; give one or more."),
        ({"query": "", "texts": ["a"]}, {}, "The request has no word in its query; give a query."),
    ],
    "token_classification": [({"text": "\x01"}, {}, "The request has no word in its text; give a text.")],
    "fill_mask": [
        ({"text": "a"}, {}, "The request has no [MASK]; write [MASK] where a word is to be guessed."),
        (
            {"text": "[MASK]" + " a" * 20},
            {},
            "The request has 21 tokens, 7 more than the 14 that the model takes; make it shorter.",
        ),
        (
            {"text": "[MASK]"},
            {"candidates": ["walks"]},
            'Candidates has "walks", which the tokenizer turns into walk ##s; a [MASK] is one token, so give words '
            "that the vocabulary has.",
        ),
    ],
}


def test_mistakes(of_task):
    for task, cases in MISTAKES.items():
        results = run_in_node(of_task(task).folder, [["answers", "", [item], options] for item, options, _ in cases])
        assert results == [{"error": message} for _, _, message in cases]


def test_a_folder_that_lacks_a_file_or_has_a_broken_model(of_task, tmp_path):
    advice = "upload the whole folder of the export, and load the page again."
    folder = of_task("regression").changed(tmp_path / "web").folder
    (folder / "model.onnx").write_bytes(b"broken")
    [error] = answers_in_node(folder, [{"text": "a"}])
    assert error.startswith("The model could not be opened (")
    for name in ("model.onnx", "ort-wasm-simd-threaded.wasm", "vocab.txt"):
        file = (folder / name).rename(tmp_path / name)
        message = f"The file {name} could not be loaded (no connection); {advice}"
        assert answers_in_node(folder, [{"text": "a"}]) == [message]
        file.rename(folder / name)
    (folder / "ort.wasm.bundle.min.mjs").unlink()
    message = f"The file ort.wasm.bundle.min.mjs could not be loaded; {advice}"
    assert answers_in_node(folder, [{"text": "a"}]) == [message]


def test_an_engine_without_simd(tmp_path):
    script = """
    import { tokens } from "./browser_backend.js";
    const validate = WebAssembly.validate;
    async function main(answer) {
      WebAssembly.validate = (bytes) => answer && validate(bytes);
      return tokens("", {}).catch((error) => error.message);
    }
    """
    message = "This browser has no WebAssembly SIMD, which the model needs; take a newer browser."
    assert run_node(tmp_path / "without", script, False) == message
    # This engine has it, so the first file is what is missing.
    assert "The file " in run_node(tmp_path / "with", script, True)


@contextlib.contextmanager
def page_of(driver, web):
    """Opens the page of a web folder from a static host. Yields the Page, and the paths that it has asked for."""
    with static_host(web.folder) as (address, asked):
        page = Page(driver, address).open()
        yield page, asked
        page.check_log()


def test_the_page_answers_from_its_folder_alone(of_task, driver, tmp_path):
    web = of_task("classification")
    items = [pair("he was hungry", "so he ate"), pair("Paris é <script>", "👨")]
    file = "".join(
        f"{item['text']};{item['text_pair']}\n" for item in [pair("text", "text_pair"), *items, pair("", "a")]
    )
    expected = web.live([tuple(item.values()) for item in items])
    with page_of(driver, web) as (page, asked):
        for item, of_python in zip(items, expected, strict=True):
            answer = page.run(**item).text_of("#answer")
            assert page.text_of("#error") == ""
            for label, probability in of_python.probabilities.items():
                assert label in answer
                assert f"{100 * probability:.1f} %" in answer
        assert page.unfold("tokens").texts("#tokens .token")[0] == "[CLS]"
        assert not any(page.find(part).is_displayed() for part in ("#attention", "#request"))
        page.find("#table > summary").click()
        saved = page.drop(file, "pairs.csv").answer_rows().saved_file(tmp_path)
        page.run(**pair(" ", "a"))
        assert page.text_of("#error") == "The request has no word in its first text; give a first text."
    assert saved.name == "pairs_answers.csv"
    header, *rows, last = (row.split(";") for row in saved.read_text().splitlines())
    assert header == ["text", "text_pair", "label", "probability", "error"]
    for (*texts, label, probability, error), item, of_python in zip(rows, items, expected, strict=True):
        assert (texts, label, error) == ([*item.values()], of_python.label, "")
        assert float(probability) == pytest.approx(of_python.probabilities[label], abs=1e-4)
    assert last == ["", "a", "", "", "The text is empty."]
    # index.html is also the file of the path "/".
    assert {path.strip("/") for path in asked} <= {"", *(path.name for path in web.folder.iterdir())}
    assert "/model.onnx" in asked


def test_the_page_explains_a_pair(of_task, driver):
    web, item = of_task("classification"), pair("of H  walk is London 👨", "so hungry walk o")
    [answer] = web.check(item, why=True)
    assert {word["field"] for word in answer["words"] if abs(word["weight"]) >= 5e-4} == {*item}
    assert {word["weight"] >= 0.025 for word in answer["words"]} == {True, False}  # 5 % of that of the full colour
    with page_of(driver, web) as (page, _):
        page.run(**item).unfold("why")
        assert page.texts("#why .result") == [answer["label"]]
        check_words(page, answer["words"], item)


def test_the_page_explains_a_span_only_with_a_server(of_task, driver):
    with page_of(driver, of_task("question_answering")) as (page, _):
        page.run(**question("who ate", "he ate so she was hungry")).unfold("why")
        assert page.texts("#error, #why > div, #why .bar") == [
            "",
            "For this task, the page needs a server that runs the model: in the browser, hiding each word takes too "
            "long.",
        ]


def test_the_page_opened_from_a_file_says_how_to_open_it(of_task, driver):
    page = Page(driver, (of_task("classification").folder / "index.html").resolve().as_uri())
    driver.get(page.url)
    page.wait(page.find("#unopened").is_displayed)
    assert "Browsers do not run it from a file" in page.text_of("#unopened")
    assert not page.find("#task").is_displayed()
    assert "default-src 'none'" in driver.page_source
    driver.get_log("browser")  # has the scripts that it does not run
