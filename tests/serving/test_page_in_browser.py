"""The page in a headless Chromium: every task, errors, long and foreign texts, scripts in texts, the keyboard."""

import dataclasses
import json
import re
import shlex
import shutil
import subprocess

import extra_serve  # noqa: F401
import pytest

pytest.importorskip("selenium", reason="needs the extra [browser]")

import requests
from fine_tuned_models import FINE_TUNED, write_fine_tuned
from running_server import serving
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from server_page import CASES, IMAGE, SCRIPT, Page, answers_to, check_words, write_models

from bert_keras.prediction import open_model
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.versions import open_folders

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folders = write_models(tmp_path_factory.mktemp("models"))
    tasks = ("fill_mask", "next_sentence", "score", "vectors")
    with serving(open_folders(folders, tasks, Limits(max_chars=100_000, max_sequences=10_000))) as running:
        running.folders = folders
        yield running


@pytest.fixture
def page(driver, server):
    driver.set_window_size(1280, 900)
    opened = Page(driver, server.url)
    yield opened
    opened.check_log()


def answers_of(server, task, **options):
    """Returns the answers of the server to the case of a task."""
    name, texts = CASES[task]
    items = [dict(texts)]
    for field in {"choices", "texts"} & {*texts}:
        items = [texts | {field: texts[field].split("\n")}]
    if task in ("score", "vectors"):
        items = texts["text"].split("\n")
    return answers_to(server, name, task, *items, **options)


def percent(value):
    return f"{100 * value:.1f} %"


@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_classes_are_bars_in_the_order_of_their_probabilities(page, server, task):
    page.open(task).run(**CASES[task][1])
    [answer] = answers_of(server, task)
    order = sorted(answer["probabilities"].items(), key=lambda pair: -pair[1])
    assert page.texts(".bar-name") == [name for name, _ in order]
    assert page.texts(".bar-value") == [percent(value) for _, value in order]
    if task == "classification":
        assert page.text_of(".result") == answer["label"] == SCRIPT
    else:
        for threshold in (0.3, 0.6, 1):
            page.slide("#answer input[type=range]", threshold)
            applying = [name for name, value in order if value >= threshold]
            assert page.text_of(".result") == (", ".join(applying) or "No label")


def test_numbers_choices_and_pairs(page, server):
    page.open("regression").run(**CASES["regression"][1])
    assert float(page.text_of(".result")) == pytest.approx(answers_of(server, "regression")[0]["value"], rel=1e-5)
    page.open("multiple_choice").run(**CASES["multiple_choice"][1])
    [answer] = answers_of(server, "multiple_choice")
    assert page.texts(".bar-value") == [percent(value) for value in answer["probabilities"]]
    assert page.text_of(".result") == page.text_of(".chosen .bar-name") == answer["choices"][answer["index"]]
    page.open("rerank").run(**CASES["rerank"][1])
    [answer] = answers_of(server, "rerank")
    assert page.texts(".bar-name") == [each["text"] for each in answer["texts"]]
    assert page.texts(".bar-value") == [f"{each['score']:.4f}" for each in answer["texts"]]
    assert page.text_of(".chosen .bar-name") == answer["texts"][0]["text"]
    page.open("next_sentence").run(**CASES["next_sentence"][1])
    assert page.texts(".bar-value")[0] == percent(answers_of(server, "next_sentence")[0]["probability"])


def test_a_guess_goes_into_the_text(page, server):
    page.open("fill_mask").run(**CASES["fill_mask"][1])
    [answer] = answers_of(server, "fill_mask")
    guesses = [guess for of_mask in answer["masks"] for guess in of_mask]
    assert page.texts(".guess .bar-name") == [guess["token"] for guess in guesses]
    assert page.texts(".guess .bar-value") == [percent(guess["probability"]) for guess in guesses]
    page.find(".guess").click()
    page.wait(lambda: page.find("#field-text").get_attribute("value") == guesses[0]["sentence"])
    # The text has another mask, so its guesses follow.
    page.wait(lambda: len(page.texts(".guess")) == 5)
    page.find(".guess").click()
    assert "[MASK]" not in page.find("#field-text").get_attribute("value")
    page.run(text="paris [MASK]").find("#option-candidates").send_keys("london, paris")
    page.run()
    assert set(page.texts(".guess .bar-name")) == {"london", "paris"}


def test_the_slider_of_the_answer_moves_the_threshold(page, server):
    page.open("question_answering").run(**CASES["question_answering"][1])
    [answer] = answers_of(server, "question_answering")
    assert (page.text_of(".result"), page.text_of("#answer .found")) == ("paris", "paris")
    page.slide("#answer input[type=range]", answer["null_odds"] - 1)
    assert (page.text_of(".result"), page.texts("#answer .found")) == ("The text has no answer", [])
    page.slide("#answer input[type=range]", answer["null_odds"] + 1)
    assert page.text_of(".result") == "paris"


def test_scores_and_similarities(page, server):
    page.open("score").run(**CASES["score"][1])
    answers = answers_of(server, "score")
    told = [float(found) for found in re.findall(r"log-probability (-[\d.]+)", " ".join(page.texts(".scored .muted")))]
    assert told == [pytest.approx(answer["log_probability"], abs=0.006) for answer in answers]
    assert page.texts(".scored .text") == CASES["score"][1]["text"].split("\n")
    shown = [mark.get_attribute("title") for mark in page.driver.find_elements(By.CSS_SELECTOR, ".scored .word")]
    scores = [token["log_probability"] for answer in answers for token in answer["tokens"]]
    assert [float(title.split()[-1]) for title in shown] == [pytest.approx(score, abs=0.006) for score in scores]
    page.open("vectors").run(**CASES["vectors"][1])
    cosines = [float(cell) for cell in page.texts(".cosine")]
    assert len(cosines) == 9
    assert cosines[0::4] == [1, 1, 1]


TEXT = "\U0001f600 she \u05e9\u05dc\u05d5\u05dd paris e\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467 LONDON"


def test_offsets_count_emoji_and_right_to_left_text(page):
    page.open("token_classification").run(text=TEXT)
    assert page.texts("#answer .entity") == ["shePER", "parisLOC", "LONDONLOC"]
    page.slide("#answer input[type=range]", 1)
    assert page.texts("#answer .entity") == []
    page.unfold("tokens")
    tokens = page.driver.find_elements(By.CSS_SELECTOR, "#tokens .token")
    marked = []
    for token in tokens:
        ActionChains(page.driver).move_to_element(token).perform()
        marked += [(token.text, words) for words in page.texts("#tokens .found")]
    assert [words for token, words in marked if token in ("she", "paris", "london")] == ["she", "paris", "LONDON"]
    page.open("question_answering").run(question="where", context=f"{TEXT} {TEXT}")
    assert page.text_of("#answer .found") == "paris"


def test_scripts_in_texts_are_only_texts(page):
    for task, (_, texts) in CASES.items():
        page.open(task).run(**{name: f"{IMAGE} {text}" for name, text in texts.items()})
        for part in ("tokens", "attention", "request"):
            page.unfold(part)
        body = json.loads(shlex.split(page.text_of("#request code"))[-1])
        assert IMAGE in " ".join(map(str, body["items"][0].values()))
        assert page.driver.execute_script("return document.querySelectorAll('main img, main script').length") == 0
        assert page.driver.title != "broken"


@pytest.mark.parametrize("task", ["classification", "token_classification", "question_answering"])
def test_100_000_characters_are_answered(page, task):
    long = ("she walks in paris . " * 4762)[:100_000]
    page.open(task).run(**{name: long if name in ("text", "context") else "he" for name in CASES[task][1]})
    assert page.find("#error").text == ""
    assert page.find("#answer").is_displayed()
    page.unfold("tokens")
    page.open(task).run(**{name: long + "a" if name in ("text", "context") else "he" for name in CASES[task][1]})
    assert "100,001 characters" in page.find("#error").text


def test_mistakes_are_sentences_and_the_old_answer_goes(page):
    page.open("fill_mask").run(text="paris is [MASK]").run(text="paris")
    assert "The request has no [MASK]" in page.find("#error").text
    assert not page.find("#answer").is_displayed()
    page.run(text="paris is [MASK]")
    assert (page.find("#error").text, page.find("#answer").is_displayed()) == ("", True)
    page.open("vectors").run(text="paris\n" * 41)
    assert page.find("#error").text == "There are 41 sentences; give at most 40."


def test_an_older_answer_does_not_replace_a_newer_one(page):
    page.open("classification")
    delayed = """
        const send = window.fetch;
        window.fetch = (...request) => {
            window.fetch = send;
            return new Promise((resolve) => (window.release = () => resolve(send(...request))));
        };
    """
    page.driver.execute_script(delayed)
    page.write("text", "the first")
    page.find("#run").click()
    page.run(text="the second").unfold("request")
    answer = page.find("#answer > *")
    page.driver.execute_async_script("window.release(); setTimeout(arguments[0], 500)")
    assert "the second" in page.text_of("#request code")
    assert answer.is_displayed()  # the same element: nothing has been drawn again


def test_the_keyboard_is_enough(page):
    page.open("fill_mask")
    keys = ActionChains(page.driver)

    def tab_to(element_id):
        for _ in range(40):
            keys.send_keys(Keys.TAB).perform()
            if page.driver.switch_to.active_element.get_attribute("id") == element_id:
                return
        raise AssertionError(element_id)

    tab_to("field-text")
    keys.send_keys("paris is [MASK]").key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    page.wait(lambda: page.find("#answer").is_displayed())
    assert page.find("#status").text.startswith("Answered in ")
    for _ in range(40):
        keys.send_keys(Keys.TAB).perform()
        if page.driver.switch_to.active_element.text == "Tokens":
            break
    keys.send_keys(Keys.ENTER).perform()
    page.wait(lambda: page.texts("#tokens .token"))
    keys.send_keys(Keys.TAB, Keys.ARROW_RIGHT).perform()
    assert (page.driver.switch_to.active_element.text, page.texts("#tokens .found")) == ("paris", ["paris"])
    keys.send_keys(Keys.END, Keys.ARROW_LEFT).perform()
    assert page.texts("#tokens .found") == ["[MASK]"]


def test_the_attention_of_each_layer_and_head(page, server):
    page.open("next_sentence").run(**CASES["next_sentence"][1]).unfold("attention")
    body = {"model": "bert", "task": "next_sentence", "item": CASES["next_sentence"][1]}
    for layer, head in ((1, 1), (0, 0)):
        page.slide("#attention input[type=range]", layer + 1)
        page.wait(lambda: page.texts("#attention [aria-busy=false]"))
        assert page.text_of("#attention output") == f"{layer + 1} of 2"
        page.driver.find_elements(By.CSS_SELECTOR, "#attention .head")[head].click()
        answer = requests.post(f"{server.url}/v1/attention", json=body | {"layer": layer}, timeout=60).json()
        assert page.texts("#attention .token") == [token["token"] for token in answer["tokens"]]
        ActionChains(page.driver).move_to_element(page.find("#attention .token:nth-child(3)")).perform()
        shares = sorted(answer["attention"][head][2], reverse=True)[:8]
        page.wait(lambda shares=shares: page.texts("#attention .bar-value") == [percent(share) for share in shares])
        means = answer["looks_at"][head]
        assert f"[SEP] {percent(means['[SEP]'])}, the previous token" in page.text_of("#attention .means")
        assert f"Entropy: {means['entropy']:.2f} bits." in page.text_of("#attention .means")


# Task -> an item in which some words have a weight.
EXPLAINED = {
    "regression": {"text": f"{IMAGE} he  was hungry"},
    "multi_label": {"text": "he was hungry so he ate"},
    "question_answering": CASES["question_answering"][1],
}


# Task -> the weight of the full colour.
FULL = {"regression": 1, "question_answering": 5}


@pytest.mark.parametrize("task", EXPLAINED)
def test_words_are_marked_by_their_weights(page, server, task):
    item = EXPLAINED[task]
    page.open(task).run(**item).unfold("why")
    [answer] = answers_to(server, task, task, item, why=True)
    check_words(page, answer["words"], item, FULL.get(task, 0.5))


def test_words_of_a_pair_are_marked_in_their_texts(driver, tmp_path):
    make, settings = FINE_TUNED["classification"]
    folder = write_fine_tuned(tmp_path, make(), "classification", **settings)
    item = {"text": f"{IMAGE} he was", "text_pair": "so he ate , \U0001f600 was he"}
    answer = open_model(folder)((item["text"], item["text_pair"]), why=True)
    words = [dataclasses.asdict(word) for word in answer.words]
    assert {word["field"] for word in words if abs(word["weight"]) > 0.005} == {"text", "text_pair"}
    assert {word["weight"] > 0 for word in words} == {True, False}
    with serving(open_folders({"classification": str(folder)}, (), Limits())) as server:
        page = Page(driver, server.url).open("classification").run(**item).unfold("why")
        check_words(page, words, item)
        assert page.texts("#why .result") == [answer.label]
        # Another answer replaces the words.
        page.run(text="he", text_pair="")
        page.wait(lambda: page.texts("#why .text") == ["he"])
        [word] = open_model(folder)(("he", ""), why=True).words
        check_words(page, [dataclasses.asdict(word)], {"text": "he"})
        page.check_log()


def test_each_entity_has_its_words(page, server):
    page.open("token_classification").run(**CASES["token_classification"][1]).unfold("why")
    [answer] = answers_of(server, "token_classification", why=True)
    shown = Select(page.find("#why select"))
    assert [option.text for option in shown.options] == ["PER: she", "LOC: paris"]
    for number, words in enumerate(answer["entity_words"]):
        shown.select_by_index(number)
        best = max(words, key=lambda word: word["weight"])
        assert page.texts("#why .text .supports") == [best["word"]] == [answer["entities"][number]["text"]]
    page.run(text="so so")
    page.wait(lambda: "The model found nothing in this text." in page.texts("#why > div")[0])
    assert not page.open("score").run(**CASES["score"][1]).find("#why").is_displayed()


def test_the_tokens_and_the_attention_of_each_text(page):
    texts = ["paris", "he was hungry", " ".join(["he was hungry"] * 4)]
    page.open("score").run(text="\n".join(texts)).unfold("attention").unfold("tokens")
    shown = Select(page.find("#attention select"))
    beginnings = ["paris", "he was hungry", "he was hungry he was hungry he was…"]
    assert [option.text for option in shown.options] == [
        f"text {number} of 3: {beginning}" for number, beginning in enumerate(beginnings, 1)
    ]
    for number, text in ((1, texts[1]), (2, texts[2]), (0, texts[0])):
        for part in ("attention", "tokens"):
            Select(page.find(f"#{part} select")).select_by_index(number)
            expected = ["[CLS]", *text.split(), "[SEP]"]
            page.wait(lambda part=part, expected=expected: page.texts(f"#{part} .token") == expected)
    assert "sequences" not in page.text_of("#attention")
    page.open("multiple_choice").run(**CASES["multiple_choice"][1]).unfold("attention")
    assert "as 3 sequences" in page.text_of("#attention")
    assert "This is the attention in the first." in page.text_of("#attention")
    assert page.driver.find_elements(By.CSS_SELECTOR, "#attention select") == []


@pytest.mark.skipif(not shutil.which("curl"), reason="needs the program curl")
def test_the_command_on_the_screen_gives_the_answer(page):
    text = "it's \"paris\" $HOME `date` \\ 'london' \u2019\n[MASK]"
    page.open("fill_mask").run(text=text).unfold("request")
    printed = subprocess.run(page.text_of("#request code"), shell=True, capture_output=True, check=True).stdout
    [answer] = json.loads(printed)["answers"]
    assert answer["text"] == text
    assert [guess["token"] for guess in answer["masks"][0]] == page.texts(".guess .bar-name")


def test_the_chooser_has_all_models_and_every_view_fits_a_phone(page):
    page.open()
    assert page.driver.current_url.startswith(f"{page.url}/page/")
    names = [option.text for option in Select(page.find("#model")).options]
    assert len(names) == len(CASES)
    page.driver.set_window_size(500, 900)  # the least that this browser has; the frame below is narrower
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    for number in range(len(names)):
        Select(page.find("#model")).select_by_index(number)
        page.wait(lambda: page.find("#title").text)
        if examples := page.driver.find_elements(By.CSS_SELECTOR, "#examples button"):
            examples[0].click()
        else:
            page.run(text="he was in paris")
        page.wait(lambda: page.find("#answer").is_displayed())
        for part in ("why", "tokens", "attention", "request"):
            if not page.find(f"#{part}").is_displayed():
                continue
            if not page.find(f"#{part}").get_attribute("open"):
                page.unfold(part)
        script = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        assert page.driver.execute_script(script) == [390, 390], names[number]
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_page_follows_its_address(page):
    page.open("regression").run(text="he")
    page.driver.execute_script("location.hash = '#bert/score'")
    page.wait(lambda: page.find("#title").text == "How natural is a sentence?")
    assert not page.find("#answer").is_displayed()
    page.driver.execute_script("location.hash = '#none/score'")
    page.wait(lambda: page.find("#error").text == "There is no model at #none/score.")
    assert page.driver.current_url.endswith("#bert/score")
    page.driver.execute_script("history.go(-2)")  # the wrong address was an entry of the history, too
    page.wait(lambda: page.find("#title").text == "Rate a text")


def test_an_address_has_the_texts_and_opens_their_answer(page, driver):
    """The address of each task fills the form of another visitor and has the same answer."""
    for task, (_, texts) in CASES.items():
        page.open(task)
        entries = driver.execute_script("return history.length")
        address = page.run(**texts).driver.current_url
        shown = page.text_of("#answer")
        assert driver.execute_script("return history.length") == entries
        driver.get("about:blank")
        driver.get(address)
        page.wait(lambda: page.find("#answer").is_displayed())
        assert {name: page.find(f"#field-{name}").get_attribute("value") for name in texts} == texts
        assert (page.text_of("#answer"), driver.current_url) == (shown, address)


def test_texts_in_an_address_are_only_texts(page, driver):
    text = f"{IMAGE} \U0001f600 a&b=c#d?e+f%25 \u05e9\nlondon [MASK]"
    page.open("fill_mask").find("#option-candidates").send_keys("london, paris")
    address = page.run(text=text).driver.current_url
    # From one address to another of the same model, of another one, and back.
    for hash_, task, value in (
        ("#bert/fill_mask?text=paris+[MASK]&unknown=1&form=2", "fill_mask", "paris [MASK]"),
        ("#regression/regression?text=he%0Aate", "regression", "he\nate"),
        (address[address.index("#") :], "fill_mask", text),
    ):
        driver.execute_script("location.hash = arguments[0]", hash_)
        page.wait(lambda task=task: f"/{task}?" in driver.current_url and page.find("#answer").is_displayed())
        page.wait(lambda value=value: page.find("#field-text").get_attribute("value") == value)
    assert set(page.texts(".guess .bar-name")) == {"london", "paris"}
    assert driver.execute_script("return document.querySelectorAll('main img').length") == 0
    page.run(text="paris [MASK] " * 160)
    assert driver.current_url.endswith("#bert/fill_mask")
    page.open("regression").run(text="")
    assert driver.current_url.endswith("#regression/regression")


def test_examples_and_labels_are_those_of_the_model(page):
    for task, labels in (("classification", f" Labels: {SCRIPT}, good, \u00fc."), ("regression", "")):
        page.open(task)
        assert page.texts("#examples button") == []
        assert page.text_of("#purpose").endswith(f"Model: {task}.{labels}")
    page.open("multi_label")
    assert page.texts("#examples button") == [f"{SCRIPT[:31].rsplit(' ', 1)[0]}…", "she was in paris"]
    page.find("#examples button:last-child").click()
    page.wait(lambda: page.find("#answer").is_displayed())
    assert page.find("#field-text").get_attribute("value") == "she  was in paris"
    page.open("token_classification")
    assert page.texts("#examples button") == ["Travel", "Science"]
    assert page.text_of("#purpose").endswith(" Labels: LOC, PER.")


def test_a_text_that_was_cut_is_shown(page):
    page.open("regression").run(text="he " * 20)
    notice = "A text was cut: the input has 20 tokens, and the model reads at most 16 at a time."
    assert page.texts("#answer [role=note]") == [notice]
    page.run(text="he")
    assert page.texts("#answer [role=note]") == []
    page.open("vectors").run(text=f"{'he ' * 60}\nhe\nhe")
    [found] = page.texts("#answer [role=note]")
    assert found.startswith("1 of 3 texts were cut: the input has 60 tokens")


def test_the_page_asks_for_the_token_and_tells_that_the_server_is_gone(driver, server):
    models = open_folders({"classification": server.folders["classification"]}, (), Limits())
    with serving(models, token="secret") as closed:
        page = Page(driver, closed.url).open()
        assert "token is missing or wrong" in page.find("#error").text
        for token in ("wrong", "secret"):
            page.wait(lambda: page.find("#token").is_displayed())
            page.find("#token").clear()
            page.find("#token").send_keys(token, Keys.ENTER)
            page.wait(lambda: not page.find("#token").is_displayed() or page.find("#error").text)
        page.wait(lambda: page.find("#title").text)
        page.run(text="he").unfold("request")
        assert "secret" not in page.text_of("#request code")
        assert "Bearer $TOKEN" in page.text_of("#request code")
        assert "secret" not in driver.current_url
    page.run(text="she")
    assert page.find("#error").text == "The server does not answer. Check that it is running, then try again."
    driver.get_log("browser")  # has the failed request
