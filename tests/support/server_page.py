"""The page of a server or of a web export as tests use it: models for every task, and what a user does in a browser."""

import json
import pathlib
import time

import pytest
from fine_tuned_models import (
    FINE_TUNED,
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    fixed_classifier,
    word_finder,
    word_tagger,
    write_fine_tuned,
)
from known_models import random_model, write_model

from bert_keras.serving.requests import body_of

SCRIPT = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
IMAGE = "<img src=x onerror=a>"
# Task -> name of its model, and the texts of its fields.
CASES = {
    "classification": ("classification", {"text": "he was hungry"}),
    "regression": ("regression", {"text": "he was hungry"}),
    "multi_label": ("multi_label", {"text": "he was hungry"}),
    "multiple_choice": ("multiple_choice", {"text": "he was hungry", "choices": "so he ate\nparis\na b c"}),
    "rerank": ("rerank", {"query": "he was hungry", "texts": "so he ate\nparis\na b c"}),
    "question_answering": ("question_answering", {"question": "where is he", "context": "he is in paris . " * 5}),
    "token_classification": ("token_classification", {"text": "she walks in paris ."}),
    "fill_mask": ("bert", {"text": "paris is the [MASK] of [MASK]"}),
    "next_sentence": ("bert", {"text_a": "he was hungry", "text_b": "so he ate"}),
    "score": ("bert", {"text": "he was hungry\nparis is the capital"}),
    "vectors": ("bert", {"text": "he was hungry\nparis\nlondon"}),
}


def write_models(folder):
    """Writes a model for each of CASES. Returns their folders by name."""
    made = {task: (make(), settings) for task, (make, settings) in FINE_TUNED.items()}
    labels = {"labels": [SCRIPT, "good", "\u00fc"]}
    made["classification"] = fixed_classifier(2.0, 1.0, 0.0), OF_TEXTS | labels
    tagger = word_tagger({"paris": "B-LOC", "london": "B-LOC", "she": "B-PER"})
    made["token_classification"] = tagger, OF_TAGS | {"labels": TAGS}
    finder = word_finder({"paris": 5.0, "[CLS]": 1.0}, {"paris": 5.0, "[CLS]": 1.0})
    made["question_answering"] = finder, OF_ANSWERS | {"version_2_with_negative": True}
    folders = {
        task: str(write_fine_tuned(folder / task, model, task, **settings)) for task, (model, settings) in made.items()
    }
    examples = [{"text": f"{SCRIPT} {'hungry ' * 9}"}, {"text": "she  was in paris"}, {"unknown": "a"}]
    pathlib.Path(folders["multi_label"], "page_examples.json").write_text(json.dumps(examples))
    folders["bert"] = str(write_model(folder / "bert", random_model(num_hidden_layers=2)))
    return folders


def answers_to(server, name, task, *items, **options):
    """Returns the answers of a model of a server to items, in JSON."""
    [model] = [model for model in server.models if (model.name, model.task) == (name, task)]
    return json.loads(body_of(list(model.answers(items, options))))


class Page:
    """The page at an address, such as a server of the models of `write_models`, and what a user does there."""

    def __init__(self, driver, url):
        self.driver, self.url = driver, url

    def check_log(self):
        """Checks for errors of scripts, and what the Content-Security-Policy blocked; a status such as 422 is none."""
        lines = [line["message"] for line in self.driver.get_log("browser")]
        assert [line for line in lines if "Failed to load resource" not in line] == []

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def texts(self, selector):
        """Returns the texts of all elements that match, with the white space that they have."""
        script = "return [...document.querySelectorAll(arguments[0])].map((element) => element.textContent)"
        return self.driver.execute_script(script, selector)

    def wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def open(self, task=None):
        self.driver.get("about:blank")
        self.driver.get(f"{self.url}/page/#{CASES[task][0]}/{task}" if task else self.url)
        self.wait(lambda: self.find("#title").text or self.find("#error").text)
        return self

    def write(self, name, text):
        """Sets the text of a field at once: typing 100,000 characters would take minutes."""
        self.driver.execute_script("arguments[0].value = arguments[1]", self.find(f"#field-{name}"), text)

    def run(self, **texts):
        """Writes texts, presses the button and waits for the answer or an error."""
        for name, text in texts.items():
            self.write(name, text)
        self.find("#run").click()
        self.wait(lambda: self.find("#form").get_attribute("aria-busy") == "false")
        return self

    def unfold(self, part):
        self.find(f"#{part} > summary").click()
        self.wait(lambda: self.texts(f"#{part} > div")[0] not in ("", "Working…"))
        return self

    def slide(self, selector, value):
        script = "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))"
        self.driver.execute_script(script, self.find(selector), value)

    def drop(self, content, name="texts.csv"):
        """Drops a file (str or bytes) on the page, and waits until it is shown or an error."""
        content = content.encode() if isinstance(content, str) else content
        script = """
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(arguments[0])], arguments[1]));
            const event = { dataTransfer: transfer, bubbles: true, cancelable: true };
            document.body.dispatchEvent(new DragEvent("drop", event));
        """
        self.driver.execute_script(script, [*content], name)
        self.wait(lambda: self.texts("#table form, #table .error"))
        return self

    def answer_rows(self):
        """Answers the rows of the file, and waits for the end."""
        self.find("#table form .run").click()
        self.wait(lambda: self.texts("#table [role=status], #table .error"))
        return self

    def saved_file(self, folder):
        """Saves the file with the answers in a folder that is empty. Returns its path."""

        def is_saved():
            # Until the end, Chromium has a second file beside it, or one without content.
            [*paths] = folder.iterdir()
            return len(paths) == 1 and paths[0].suffix in (".csv", ".tsv") and paths[0].stat().st_size

        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        self.find("#table a").click()
        self.wait(is_saved)
        [path] = folder.iterdir()
        return path

    def text_of(self, selector):
        [text] = self.texts(selector)
        return text


def signed(weight):
    size = f"{abs(weight):.3f}"
    return size if size == "0.000" else ("\u2212" if weight < 0 else "+") + size


def check_words(page, words, item, full=0.5):
    """Compares the part Why? with the words of an answer."""
    kinds = {
        kind: [word for word in words if sign * word["weight"] >= 0.05 * full]
        for kind, sign in (("supports", 1), ("opposes", -1))
    }
    for kind, of_kind in kinds.items():
        assert page.texts(f"#why .text .{kind}") == [word["word"] for word in of_kind]
    assert f"The full colour is a change of {full:g} or more in the " in page.text_of("#why")
    has_carrier = any(abs(word["weight"]) >= 0.1 * full for word in words)
    assert ("No single word carries this answer." in page.text_of("#why")) == (not has_carrier)
    script = """return [...document.querySelectorAll("#why .text .why")].map(
      (mark) => Number(getComputedStyle(mark).getPropertyValue("--share")))"""
    shares = page.driver.execute_script(script)
    assert shares == [pytest.approx(min(1, abs(word["weight"]) / full), abs=1e-4) for word in words]
    assert page.texts("#why .text") == [item[field] for field in dict.fromkeys(word["field"] for word in words)]
    assert [mark.get_attribute("title") for mark in page.driver.find_elements("css selector", "#why .text .why")] == [
        signed(word["weight"]) for word in words
    ]
    sums = [signed(sum(max(0, sign * word["weight"]) for word in words) * sign) for sign in (1, -1)]
    assert page.text_of("#why .sums") == f"Words for the answer add up to {sums[0]}, words against it to {sums[1]}."
    strongest = sorted(words, key=lambda word: -abs(word["weight"]))[:8]
    rows = [(word, value) for word in strongest if (value := signed(word["weight"])) != "0.000"]
    assert page.texts("#why .bar-value") == [value for _, value in rows]
    assert page.texts("#why .bar-name") == [
        word["word"] + " in the second text" * (word["field"] == "text_pair") for word, _ in rows
    ]
    assert "Attention is not an explanation" in page.text_of("#why")
