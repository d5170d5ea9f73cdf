"""report.html in a headless Chromium, wide and narrow, light and dark."""

import json

import numpy as np
import pytest

from bert_keras.runs.run_dir import RunDir
from bert_keras.tasks.classification.data import ClassificationData
from bert_keras.tasks.classification.report.page import sections_of
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.reports.page import Findings, write_page
from bert_keras.tasks.tables.examples import Example

pytestmark = pytest.mark.slow

LONG = "a-label-without-blanks-" * 20
SCRIPT = "<script>document.title = 'it ran'</script>"


@pytest.fixture(params=[2, 30, 3000])
def page(request, tmp_path, real_pictures):
    """A page with long words, foreign scripts and a script in its labels and texts."""
    labels = tuple(f"{number} {text}" for number in range(request.param // 2) for text in (LONG, "تسمية"))
    texts = [SCRIPT, "word " * 500, LONG * 3, "نص عربي", "line\n\nbreak"]
    dev = [
        Example(str(n), texts[n % 5], texts[-1], labels[n % len(labels)], source=f"{LONG}.csv line 1")
        for n in range(90)
    ]
    data = ClassificationData(SingleLabel(labels), ("accuracy",), None, None, dev, None)
    answers = np.random.default_rng(0).dirichlet(np.ones(len(labels)), len(dev))
    truth = np.arange(len(dev)) % len(labels)
    outcome = answers.max(-1), answers.argmax(-1) == truth, answers[np.arange(len(dev)), truth]
    rows = [f"{step},{split},{1 / step},0.5" for step in (1, 10, 200) for split in ("train", "eval")]
    (tmp_path / "metrics.csv").write_text("\n".join(["step,split,loss,accuracy", *rows]) + "\n")
    run_dir = RunDir(str(tmp_path), "run_classifier")
    numbers, of_texts = sections_of(run_dir, data, answers, outcome)
    metrics = {"loss": 1.0, "accuracy": 0.5}
    described = {"metrics": metrics, "baseline": metrics, "step": 1, "data": {"source": f"{SCRIPT}{LONG}"}}
    commands = [("Do this:", ["predict.py", f"--model_dir={LONG}", SCRIPT])]
    found = Findings(len(dev), "examples", {"accuracy": (0.4, 0.6)}, of_texts, numbers, "a baseline", commands)
    write_page(run_dir, LONG, {"task": "classification"}, described, found)
    return tmp_path / "report.html"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_runs_nothing_and_is_readable(driver, page, width, scheme):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    driver.get(page.as_uri())
    assert driver.title == page.parent.name
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.scripts.length") == 0
    assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    # A wide table or command scrolls in its own frame, so no part of the page is cut.
    outside = """
        const frames = "section, header, .facts, .texts p, .wide, pre, figure, h1, h2, nav a";
        return [...document.querySelectorAll(frames)]
            .filter((part) => part.getBoundingClientRect().right > innerWidth)
            .map((part) => part.className || part.tagName)
    """
    assert driver.execute_script(outside) == []
    assert driver.execute_script("return document.querySelectorAll('figure svg').length") == 3
    assert SCRIPT in driver.find_element("css selector", "main").text
    # The least contrast of text and background, of all texts, shaded cells and pictures.
    contrasts = """
        const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
        const over = ([r, g, b, a = 1], back) => [r, g, b].map((value, n) => a * value + (1 - a) * back[n]);
        const back = (part) => !part ? [255, 255, 255]
            : over(numbers(getComputedStyle(part).backgroundColor), back(part.parentElement));
        const light = (colour) => colour.map((value) => value / 255)
            .map((value) => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
            .reduce((sum, value, n) => sum + value * [0.2126, 0.7152, 0.0722][n], 0);
        return [...document.querySelectorAll("body, p, td, th, a, h2, b, pre, svg text")].map((part) => {
            const style = getComputedStyle(part), behind = back(part);
            const values = [light(numbers(part.matches("text") ? style.fill : style.color)), light(behind)];
            return [(Math.max(...values) + 0.05) / (Math.min(...values) + 0.05), part.tagName, part.textContent];
        }).sort((one, other) => one[0] - other[0])[0]
    """
    least, *part = driver.execute_script(contrasts)
    assert least > 4.5, json.dumps(part)
