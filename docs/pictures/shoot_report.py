#!/usr/bin/env python3
"""Takes the picture of a report in a headless Chromium: the upper part of the page of a run.

    python docs/pictures/shoot_report.py shop/report.html

The run is the first one of docs/guides/classification.md. The script needs the extra [browser], chromium and
chromedriver.
"""

import base64
import io
import pathlib
import shutil
import sys

from PIL import Image
from selenium import webdriver

FILE = pathlib.Path(__file__).resolve().with_name("report.png")
WIDTH = 1280
LAST = "Most suspicious labels"  # the section below the picture


def main(report):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    with webdriver.Chrome(options, webdriver.ChromeService(executable_path=shutil.which("chromedriver"))) as driver:
        metrics = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(pathlib.Path(report).resolve().as_uri())
        sections = driver.find_elements("css selector", "section")
        end = next(section.location["y"] for section in sections if section.text.startswith(LAST))
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": end, "scale": 1}
        taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    image = Image.open(io.BytesIO(base64.b64decode(taken["data"]))).convert("RGB")
    image.quantize(256, Image.Quantize.MAXCOVERAGE).save(FILE, optimize=True)
    print(f"docs/pictures/{FILE.name}: {FILE.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main(*sys.argv[1:])
