"""Runs a script in Chromium, on a page of a static web server for one folder on this computer."""

import contextlib
import http.server
import json
import pathlib
import queue
import shutil
import subprocess
import tempfile
import threading

_PAGE = """<!doctype html>
<meta charset="utf-8">
<link rel="icon" href="data:,">
<script type="module">
const report = (value) => fetch("/result", { method: "POST", body: JSON.stringify(value) });
try {
  const run = async () => {
    %s
  };
  await report({ value: await run() });
} catch (error) {
  await report({ error: `${error.message} ${error.stack}` });
}
</script>
"""


def find_chromium():
    """Returns the path of Chromium or Chrome; None if neither is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def run_in_chromium(folder, script):
    """Runs a script in Chromium and returns its result, and the paths that Chromium asked the server for.

    The script is the body of an async function of JavaScript. It may import the modules of the folder, such as
    "./backend.js". No other address can be reached.
    """
    asked, results = [], queue.Queue()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def do_GET(self):
            asked.append(self.path)
            if self.path != "/test.html":
                super().do_GET()
                return
            content = (_PAGE % script).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self):
            results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with _chromium(f"http://127.0.0.1:{server.server_address[1]}/test.html"):
        try:
            result = results.get(timeout=300)
        finally:
            server.shutdown()
            server.server_close()
    if "error" in result:
        raise RuntimeError(f"the script failed in Chromium: {result['error']}")
    return result["value"], asked


@contextlib.contextmanager
def _chromium(address):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
            # As in web_check.mjs.
            "--js-flags=--wasm-tiering-budget=100000000",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            f"--user-data-dir={profile}",
        ]
        with open(pathlib.Path(profile, "log"), "wb") as log:
            process = subprocess.Popen([find_chromium(), *flags, address], stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait()
