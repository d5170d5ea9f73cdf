#!/usr/bin/env python3
"""Takes the pictures of the server's page again, in a headless Chromium.

    python docs/pictures/shoot_page.py http://127.0.0.1:8501 [...]

Serve the models of the first steps under these names: messages=bert_demo/messages, names=bert_demo/entities_minilm,
questions=bert_demo/questions_minilm; and minilm=minilm with --tasks=vectors. They may be on several servers. An address
may also be that of the web folder of docs/guides/web.md on a static server. The script needs the extra [browser],
chromium and chromedriver. It leaves out the pictures whose model no server has.
"""

import base64
import pathlib
import shutil
import sys
import time

import requests
from selenium import webdriver
from selenium.webdriver.common.by import By

FOLDER = pathlib.Path(__file__).resolve().parent
WIDE, PHONE = 1000, 390
QUESTION = "Where does the winter market take place?"
NOTICE = (
    "The winter market takes place in Turin on Saturday. Kira Jensen leads it this year. A ticket costs 12 euro. Some "
    "800 people are expected. If it rains, it is moved to Sunday."
)
NEWS = "The striker scored twice as United won the cup final."
# Name of the picture -> model, task, fields, the part below the answer that is open, width, and whether it is dark.
PICTURES = {
    "page_classes": ("messages", "classification", {"text": "my parcel never arrived"}, None, WIDE, False),
    "page_names": (
        *("names", "token_classification"),
        {"text": "Petra Novak ordered a tent from Brightwater Tools on 4 May. It goes to Lisbon."},
        *("tokens", WIDE, False),
    ),
    "page_answer": ("questions", "question_answering", {"question": QUESTION, "context": NOTICE}, None, WIDE, False),
    "page_similarity": ("minilm", "vectors", None, None, WIDE, False),
    "page_attention": ("names", "token_classification", {"text": "Petra lives in Oslo."}, "attention", WIDE, False),
    "page_phone": (
        *("names", "token_classification", {"text": "Petra Novak ordered a tent from Brightwater Tools on 4 May."}),
        *(None, PHONE, True),
    ),
}


def main(addresses):
    """Takes the pictures from servers."""
    served, web = {}, None
    for address in addresses:
        response = requests.get(f"{address}/models", timeout=60)
        if response.status_code == 404:  # a static server
            web = address
            continue
        for model in response.json()["models"]:
            served[model["name"], model["task"]] = address
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    with webdriver.Chrome(options, webdriver.ChromeService(executable_path=shutil.which("chromedriver"))) as driver:
        for picture, (model, task, *scene) in PICTURES.items():
            if (model, task) in served:
                keep(picture, shot(driver, f"{served[model, task]}/page/#{model}/{task}", *scene))
        if web:
            keep("page_web", shot(driver, f"{web}/", {"text": NEWS}, "tokens", WIDE, False))


def keep(picture, content):
    """Writes a picture."""
    file = FOLDER / f"{picture}.png"
    file.write_bytes(content)
    print(f"docs/pictures/{file.name}: {len(content) / 1000:.0f} KB")


def shot(driver, address, texts, part, width, is_dark):
    """Returns the PNG of the page with the answer to texts; None: to the first example."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width == PHONE}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    driver.get("about:blank")
    driver.get(address)
    wait_for(driver, "return document.getElementById('title').textContent")
    for name, text in (texts or {}).items():
        script = "arguments[0].value = arguments[1]"
        driver.execute_script(script, driver.find_element(By.ID, f"field-{name}"), text)
    driver.find_element(By.CSS_SELECTOR, "#run" if texts else "#examples button").click()
    wait_for(driver, "return !document.getElementById('answer').hidden")
    if part:
        driver.find_element(By.CSS_SELECTOR, f"#{part} > summary").click()
        wait_for(driver, f"return document.querySelector('#{part} .token')")
        tokens = driver.find_elements(By.CSS_SELECTOR, f"#{part} .token")
        driver.execute_script("arguments[0].focus()", tokens[1])
    driver.execute_script("document.getElementById('status').textContent = ''")  # the time differs
    height = driver.execute_script(
        "return document.querySelector('main').getBoundingClientRect().bottom + scrollY - 40"
    )
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    return base64.b64decode(taken["data"])


def wait_for(driver, script):
    """Waits until a script returns a value that is true."""
    deadline = time.monotonic() + 60
    while not driver.execute_script(script):
        if time.monotonic() > deadline:
            sys.exit(f"shoot_page.py: the page does not answer: {driver.find_element(By.ID, 'error').text}")
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1:])
