#!/usr/bin/env python3
"""Takes the pictures of the server's page again, in a headless Chromium.

    python docs/pictures/shoot_page.py http://127.0.0.1:8501 [...]

Serve the models of the first steps under these names: messages=bert_demo/messages, names=bert_demo/entities_minilm,
questions=bert_demo/questions_minilm; and minilm=minilm with --task=vectors. They may be on several servers. An address
may also be that of the web folder of docs/guides/web.md on a static server. The script needs the extra [browser],
chromium and chromedriver. It leaves out the pictures whose model no server has.
"""

import base64
import dataclasses
import io
import pathlib
import shutil
import sys
import time

import requests
from PIL import Image
from selenium import webdriver
from selenium.webdriver.common.by import By

FOLDER = pathlib.Path(__file__).resolve().parent
WIDE, PHONE = 1000, 390
MESSAGE = {"text": "my parcel never came"}
NAMES = {"text": "Petra Novak ordered a tent from Brightwater Tools on 4 May. It goes to Lisbon."}
QUESTION = {
    "question": "Where does the winter market take place?",
    "context": "The winter market takes place in Turin on Saturday. Kira Jensen leads it this year. A ticket costs 12 "
    "euro. Some 800 people are expected. If it rains, it is moved to Sunday.",
}


@dataclasses.dataclass(frozen=True)
class Scene:
    """The content of a picture: a model with texts (none: an example), and the open part below the answer."""

    model: str
    task: str
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    part: str | None = None
    is_phone: bool = False
    is_dark: bool = False


# The page without a server.
WEB = Scene("web", "classification", MESSAGE, "tokens")
# Name of the picture -> its scenes, from left to right.
PICTURES = {
    "page_classes": [Scene("messages", "classification", MESSAGE)],
    "page_names": [Scene("names", "token_classification", NAMES, "tokens")],
    "page_answer": [Scene("questions", "question_answering", QUESTION)],
    "page_similarity": [Scene("minilm", "vectors")],
    "page_attention": [Scene("names", "token_classification", {"text": "Petra lives in Oslo."}, "attention")],
    "page_web": [WEB],
    "page_phone": [
        Scene("messages", "classification", MESSAGE, is_phone=True),
        Scene("names", "token_classification", NAMES, is_phone=True, is_dark=True),
        Scene("questions", "question_answering", QUESTION, is_phone=True),
    ],
}


def main(addresses):
    """Takes the pictures from servers."""
    served = {}
    for address in addresses:
        response = requests.get(f"{address}/models", timeout=60)
        if response.status_code == 404:  # a static server
            served[WEB.model, WEB.task] = f"{address}/"
            continue
        for model in response.json()["models"]:
            name, task = model["name"], model["task"]
            served[name, task] = f"{address}/page/#{name}/{task}"
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    with webdriver.Chrome(options, webdriver.ChromeService(executable_path=shutil.which("chromedriver"))) as driver:
        for picture, scenes in PICTURES.items():
            if all((scene.model, scene.task) in served for scene in scenes):
                file = FOLDER / f"{picture}.png"
                shots = [shot(driver, served[scene.model, scene.task], scene) for scene in scenes]
                in_a_row(shots).quantize(256, Image.Quantize.MAXCOVERAGE).save(file, optimize=True)
                print(f"docs/pictures/{file.name}: {file.stat().st_size / 1000:.0f} KB")


def in_a_row(shots):
    """Returns images next to each other, cut to the height of the lowest."""
    width, height = sum(image.width for image in shots), min(image.height for image in shots)
    row, left = Image.new("RGB", (width, height)), 0
    for image in shots:
        row.paste(image, (left, 0))
        left += image.width
    return row


def shot(driver, address, scene):
    """Returns the image of the page with an answer."""
    width = PHONE if scene.is_phone else WIDE
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": scene.is_phone}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if scene.is_dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.get("about:blank")
    driver.get(address)
    wait_for(driver, "return document.getElementById('title').textContent")
    for name, text in scene.texts.items():
        script = "arguments[0].value = arguments[1]"
        driver.execute_script(script, driver.find_element(By.ID, f"field-{name}"), text)
    driver.find_element(By.CSS_SELECTOR, "#run" if scene.texts else "#examples button").click()
    wait_for(driver, "return !document.getElementById('answer').hidden")
    if scene.part:
        driver.find_element(By.CSS_SELECTOR, f"#{scene.part} > summary").click()
        wait_for(driver, f"return document.querySelector('#{scene.part} .token')")
        tokens = driver.find_elements(By.CSS_SELECTOR, f"#{scene.part} .token")
        driver.execute_script("arguments[0].focus()", tokens[1])
    driver.execute_script("document.getElementById('status').textContent = ''")  # the time differs
    last, below = ("main", -40) if scene.part or scene.is_phone else ("#answer", 16)
    end = f"return document.querySelector('{last}').getBoundingClientRect().bottom + scrollY + {below}"
    clip = {"x": 0, "y": 0, "width": width, "height": driver.execute_script(end), "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    return Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")


def wait_for(driver, script):
    """Waits until a script returns a value that is true."""
    deadline = time.monotonic() + 60
    while not driver.execute_script(script):
        if time.monotonic() > deadline:
            sys.exit(f"shoot_page.py: the page does not answer: {driver.find_element(By.ID, 'error').text}")
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1:])
