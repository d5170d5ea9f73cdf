"""A server in its own process, for benchmarks."""

import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def started_server(command: Sequence[str]) -> Iterator[tuple[subprocess.Popen, str]]:
    """Runs a program of this project that serves. Yields its process and its address when it is ready.

    Raises:
        ValueError: the program ended before it was ready.
    """
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log)
        try:
            yield process, _wait_for_address(process, command, log)
        finally:
            process.terminate()
            process.wait()
        log.seek(0)
        if (text := log.read()) and "Traceback" in text:
            raise ValueError(f"{' '.join(command)} reports an exception:\n{text}")


def _wait_for_address(process, command, log):
    while True:
        log.seek(0)
        text = log.read()
        found = re.search(r"serving at (\S+)", text)
        if found and (not command[0].endswith("serve.py") or re.search(r"\bready; ", text)):
            return found[1]
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
            raise ValueError(f"{' '.join(command)} ended:\n{text}")
