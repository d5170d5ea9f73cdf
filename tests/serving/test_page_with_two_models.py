"""The page in a headless Chromium: two models answer the same texts, and a model answers the rows of a file."""

import csv
import io
import json

import extra_serve  # noqa: F401
import pytest

pytest.importorskip("selenium", reason="needs the extra [browser]")

from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import random_model, write_model
from running_server import serving
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select
from server_page import Page, answers_to, write_models

from bert_keras.prediction.arguments import Limits
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


@pytest.fixture
def page(driver, server):
    opened = Page(driver, server.url)
    yield opened
    opened.check_log()


def open_page(page, name, task):
    page.driver.get("about:blank")
    page.driver.get(f"{page.url}/page/#{name}/{task}")
    page.wait(lambda: page.find("#title").text)
    return page


def percents(answer):
    return [f"{100 * value:.1f} %" for value in sorted(answer["probabilities"].values(), reverse=True)]


def test_two_models_answer_the_same_text(page, server, driver):
    open_page(page, "first", "classification")
    names = [option.text for option in Select(page.find("#option-compare")).options]
    assert names == ["no other model", "second"]
    page.run(text="she ate")
    [first] = answers_to(server, "first", "classification", "she ate")
    [second] = answers_to(server, "second", "classification", "she ate")
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
    assert "The request has no [MASK]" in page.find("#error").text


def rows_of(path):
    content = path.read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(content, newline=""), delimiter=";" if ";" in content else ","))


def test_the_rows_of_a_file_are_answered(page, server, tmp_path):
    texts = [f"she walks {'in ' * (number % 7)}paris" for number in range(50)]
    texts[3], texts[20], texts[41] = 'he\nwas; "hungry"', "  ", "a" * 1001
    content = io.StringIO()
    writer = csv.writer(content, delimiter=";")
    writer.writerows([["id", "Text", "label"], *([number, text, "-1"] for number, text in enumerate(texts)), []])
    open_page(page, "first", "classification").drop(f"\ufeff{content.getvalue()}", "my texts.csv")
    assert page.texts("#table form .muted") == ["my texts.csv has 50 rows; 1 blank line is left out."]
    assert Select(page.find("#table select")).first_selected_option.text == "Text"
    page.answer_rows()
    assert page.text_of("#table [role=status]").startswith("Answered 48 of 50 rows in ")
    assert page.texts("#table .error") == [
        "1 row without an answer (line 23): The text is empty.",
        "1 row without an answer (line 44): The text has 1,001 characters, but the server's max_chars is 1,000; "
        "make it shorter, or raise the server's max_chars.",
    ]
    path = page.saved_file(tmp_path)
    assert path.name == "my texts_answers.csv"
    assert path.read_bytes().startswith(b"\xef\xbb\xbfid;Text;label;model_label;probability;error\r\n")
    _, *rows = rows_of(path)
    assert [row[:3] for row in rows] == [[str(number), text, "-1"] for number, text in enumerate(texts)]
    for text, (*_, label, probability, error) in zip(texts, rows, strict=True):
        if error:
            assert (label, probability) == ("", "")
            continue
        [answer] = answers_to(server, "first", "classification", text)
        assert label == answer["label"]
        assert float(probability) == pytest.approx(answer["probabilities"][label], abs=1e-5)


@pytest.mark.parametrize("task", ["regression", "multi_label"])
def test_the_columns_of_other_tasks(page, server, task, tmp_path):
    open_page(page, task, task).drop("a;b\nshe ate;1\nhe was;2\n")
    Select(page.find("#table select")).select_by_visible_text("a")
    page.answer_rows()
    header, *rows = rows_of(page.saved_file(tmp_path))
    answers = answers_to(server, task, task, "she ate", "he was")
    if task == "regression":
        assert header == ["a", "b", "value"]
        assert [float(row[2]) for row in rows] == [pytest.approx(answer["value"], rel=1e-4) for answer in answers]
    else:
        assert header == ["a", "b", "labels", "probabilities"]
        assert [row[2] for row in rows] == [";".join(answer["labels"]) for answer in answers]


def test_pairs_and_files_without_names_of_columns(page, server, tmp_path):
    open_page(page, "bert", "next_sentence").drop("sentence1\tsentence2\nhe ate\tso\n", "pairs.tsv")
    chosen = [
        Select(each).first_selected_option.text for each in page.driver.find_elements(By.CSS_SELECTOR, "#table select")
    ]
    assert chosen == ["sentence1", "sentence2"]
    page.drop("1\the ate\tso\n1\tshe was\tin paris\n", "pairs.tsv")
    page.wait(lambda: not page.find("#table input[type=checkbox]").is_selected())
    for select, name in zip(
        page.driver.find_elements(By.CSS_SELECTOR, "#table select"), ("Column 2", "Column 3"), strict=True
    ):
        Select(select).select_by_visible_text(name)
    page.answer_rows()
    lines = page.saved_file(tmp_path).read_text().splitlines()
    pairs = [{"text_a": "he ate", "text_b": "so"}, {"text_a": "she was", "text_b": "in paris"}]
    answers = answers_to(server, "bert", "next_sentence", *pairs)
    assert [line.split("\t")[:3] for line in lines] == [["1", "he ate", "so"], ["1", "she was", "in paris"]]
    found = [float(line.split("\t")[3]) for line in lines]
    assert found == [pytest.approx(answer["probability"], abs=1e-5) for answer in answers]


def test_files_that_cannot_be_answered_have_a_sentence(page):
    open_page(page, "first", "classification")
    for content, problem in (
        ("", "texts.csv has no rows; give a file with a text in each row."),
        (b"text\n\xe4\n", "texts.csv is not text in UTF-8; save it as CSV in UTF-8."),
        (b"PK\x03\x04\xff", "texts.csv is not text in UTF-8; save it as CSV in UTF-8."),
        ("a,b\n1,2,3", "Line 2 has 3 cells, but the first row has 2; check the quotes in that line."),
    ):
        page.drop(content)
        page.wait(lambda problem=problem: page.texts("#table .error") == [problem])
    for content, problem in (
        ("text\n", "texts.csv has names of columns and no other row; give a file with a text in each row."),
        ("a,b\n1,2\n", "Choose the column with the text."),
    ):
        page.drop(content)
        page.wait(lambda: not page.texts("#table .error"))
        page.find("#table form .run").click()
        page.wait(lambda problem=problem: page.texts("#table .error") == [problem])
    page.driver.execute_script(
        """
        const transfer = new DataTransfer();
        transfer.items.add(new File([new Uint8Array(20_000_001)], "long.csv"));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }));
        """
    )
    problem = "long.csv has 20.0 MB, but at most 20 MB are possible here; split it, or use the program predict.py."
    page.wait(lambda: page.texts("#table .error") == [problem])
    open_page(page, "bert", "fill_mask")
    assert not page.find("#table").is_displayed()


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_run_that_ends_early_keeps_its_answers(page, driver, is_cancelled, tmp_path):
    open_page(page, "first", "classification").drop("text\n" + "he was\nshe was\n" * 30)
    driver.execute_script(_HOLD % "({ items }) => items.length <= 16")  # 32 are too many for the server
    page.find("#table form .run").click()
    page.wait(lambda: driver.execute_script("return held.length === 1"))
    assert not page.find("#table form .run").is_enabled()
    driver.execute_script("held[0].resolve()")
    page.wait(lambda: driver.execute_script("return held.length === 2"))
    assert page.find("#table progress").get_attribute("value") == "16"
    if is_cancelled:
        page.find("#table form .quiet").click()
    driver.execute_script("held[1].resolve()" if is_cancelled else "held[1].reject()")
    page.wait(lambda: page.texts("#table [role=status]"))
    number, ended = (32, "Cancelled.") if is_cancelled else (16, "The server does not answer.")
    assert page.texts("#table [role=alert]")[0].startswith(ended)
    assert page.text_of("#table [role=status]").startswith(f"Answered {number} of 60 rows")
    _, *rows = rows_of(page.saved_file(tmp_path))
    assert [bool(row[1]) for row in rows] == [True] * number + [False] * (60 - number)
    assert {row[3] for row in rows[number:]} == {"The run ended before this row."}
