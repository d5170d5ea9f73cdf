"""The page in a headless Chromium: two models answer the same texts."""

import json

import pytest

pytest.importorskip("uvicorn", reason="needs the extra [serve]")
pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")
pytest.importorskip("selenium", reason="needs the extra [browser]")

from browser import chromium
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import random_model, write_model
from running_server import serving
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select
from server_page import Page, write_models

from bert_keras.prediction.arguments import Limits
from bert_keras.serving.requests import body_of
from bert_keras.serving.versions import open_folders

pytestmark = pytest.mark.slow

LABELS = {"labels": ["bad", 'so; "so"', "good"]}
# Holds the requests to a model back until a test sends them, or answers them with an error.
_HOLD = """
    const send = window.fetch;
    window.held = [];
    window.fetch = (url, request) => {
        const body = JSON.parse(request.body ?? "{}");
        if (!body.items || !(%s)(body)) return send(url, request);
        return new Promise((resolve, reject) => held.push({ resolve: () => resolve(send(url, request)), reject }));
    };
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    folders = {
        name: path for name, path in write_models(folder).items() if name in ("regression", "multi_label", "bert")
    }
    for number, name in enumerate(("first", "second")):
        model = random_classifier(3, seed=number)
        folders[name] = str(write_fine_tuned(folder / name, model, "classification", **OF_TEXTS | LABELS))
    folders["small"] = str(write_model(folder / "small", random_model(seed=3)))
    models = open_folders(folders, ("fill_mask", "next_sentence"), Limits(max_chars=1000))
    # The page asks for more items at a time.
    with serving(models, max_items=20) as running:
        yield running


@pytest.fixture(scope="module")
def driver():
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(driver, server):
    yield Page(driver, server.url)
    lines = [line["message"] for line in driver.get_log("browser") if "Failed to load resource" not in line["message"]]
    assert lines == []


def open_page(page, name, task):
    page.driver.get("about:blank")
    page.driver.get(f"{page.url}/page/#{name}/{task}")
    page.wait(lambda: page.find("#title").text)
    return page


def answers_of(server, name, task, *items):
    [model] = [model for model in server.models if (model.name, model.task) == (name, task)]
    return json.loads(body_of(list(model.answers(items, {}))))


def percents(answer):
    return [f"{100 * value:.1f} %" for value in sorted(answer["probabilities"].values(), reverse=True)]


def test_two_models_answer_the_same_text(page, server, driver):
    open_page(page, "first", "classification")
    names = [option.text for option in Select(page.find("#option-compare")).options]
    assert names == ["no other model", "second"]
    page.run(text="she ate")
    [first] = answers_of(server, "first", "classification", "she ate")
    [second] = answers_of(server, "second", "classification", "she ate")
    assert (page.texts("#answer h2"), page.texts(".bar-value")) == ([], percents(first))
    Select(page.find("#option-compare")).select_by_visible_text("second")  # asks at once
    page.wait(lambda: page.texts("#answer h2") == ["first", "second"])
    assert page.texts(".bar-value") == [*percents(first), *percents(second)]
    assert page.texts(".result") == [first["label"], second["label"]]
    address = driver.current_url
    assert address.endswith("#first/classification?text=she+ate&compare=second")
    lefts = [section.rect["x"] for section in driver.find_elements(By.CSS_SELECTOR, "#answer section")]
    assert lefts[0] < lefts[1]
    driver.get("about:blank")
    driver.get(address)
    page.wait(lambda: page.texts("#answer h2") == ["first", "second"])
    for part in ("tokens", "attention", "request"):
        page.unfold(part)
    assert [json.loads(code.split(" -d ")[1].strip("'"))["model"] for code in page.texts("#request code")] == [
        "first",
        "second",
    ]
    Select(page.find("#attention select")).select_by_visible_text("second")
    page.wait(lambda: page.texts("#attention .head"))
    driver.execute_script("location.hash = '#first/classification?text=he&compare=none'")
    page.wait(lambda: page.find("#error").text == "There is no other model none for these texts.")
    page.wait(lambda: driver.current_url.endswith("#first/classification?text=he"))
    open_page(page, "regression", "regression")
    assert driver.find_elements(By.ID, "option-compare") == []


def test_a_comparison_has_options_and_the_error_of_the_second_model(page, driver):
    open_page(page, "bert", "fill_mask")
    Select(page.find("#option-compare")).select_by_visible_text("small")
    page.find("#option-top_k").clear()
    page.find("#option-top_k").send_keys("2")
    page.run(text="paris is [MASK]")
    assert (page.texts("#answer h2"), len(page.texts(".guess"))) == (["bert", "small"], 4)
    driver.execute_script(_HOLD % "({ model }) => model === 'small'")
    page.find("#run").click()
    page.wait(lambda: driver.execute_script("return held.length"))
    driver.execute_script("held[0].reject()")
    page.wait(lambda: page.texts("#answer [role=alert]"))
    assert page.text_of("#answer section:last-child .error").startswith("The server does not answer.")
    assert len(page.texts("#answer section:first-child .guess")) == 2
    page.run(text="paris")
    assert "Text 1 has no [MASK]" in page.find("#error").text
