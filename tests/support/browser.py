"""A headless Chromium that tests drive with Selenium. Its driver is the installed one; nothing is downloaded."""

import contextlib
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"),
    # As in web_check.mjs.
    "--js-flags=--wasm-tiering-budget=100000000",
    # No other computer can be reached.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextlib.contextmanager
def chromium():
    """Yields a WebDriver while the block runs; skips the test where Selenium or Chromium is missing."""
    pytest.importorskip("selenium", reason="needs the extra [browser]")
    if not CHROMIUM or not CHROMEDRIVER:
        pytest.skip("needs the programs chromium and chromedriver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=CHROMEDRIVER))
    try:
        yield driver
    finally:
        driver.quit()
