"""Skips the tests of a file that imports it where the extra [serve] is not installed."""

import pytest

for package in ("uvicorn", "starlette", "prometheus_client", "orjson"):
    pytest.importorskip(package, reason="needs the extra [serve]")
