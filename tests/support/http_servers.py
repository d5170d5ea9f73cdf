"""Servers on this machine that behave like a static web host, a file server, and like Hugging Face."""

import base64
import contextlib
import functools
import hashlib
import http.server
import json
import threading
import urllib.parse


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        """Prints nothing."""

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextlib.contextmanager
def _serving(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def static_host(folder):
    """Serves a folder as a static web host does. Yields its address, and the list of requested paths."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

        def log_message(self, *arguments):
            """Prints nothing."""

    with _serving(functools.partial(Handler, directory=folder)) as address:
        yield address, asked


class FileServer:
    """Serves one file at any address, with x-goog-hash.

    Attributes:
        data: the file.
        md5: the hex digest to announce; None: none.
        statuses: the statuses of the next answers, before the file is served.
        drops: after these numbers of bytes, the next downloads end.
        requests: the method and the status of each request.
        address: of the file.
    """

    def __init__(self, data):
        self.data = data
        self.md5 = hashlib.md5(data).hexdigest()
        self.statuses, self.drops, self.requests = [], [], []
        self.address = None

    def handle(self, handler):
        status = self.statuses.pop(0) if self.statuses else 200
        self.requests.append((handler.command, status))
        if status != 200:
            handler.answer(status)
            return
        handler.send_response(status)
        if self.md5:  # two headers, as Google sends them
            handler.send_header("x-goog-hash", "crc32c=AAAAAA==")
            handler.send_header("x-goog-hash", f"md5={base64.b64encode(bytes.fromhex(self.md5)).decode()}")
        handler.send_header("Content-Length", str(len(self.data)))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(self.data[: self.drops.pop(0)] if self.drops else self.data)
        handler.close_connection = True


@contextlib.contextmanager
def file_server(data=b""):
    """Yields a running FileServer."""
    files = FileServer(data)

    class Handler(_Handler):
        def do_GET(self):
            files.handle(self)

        def do_HEAD(self):
            files.handle(self)

    with _serving(Handler) as address:
        files.address = f"{address}/model.zip"
        yield files


COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """Serves repositories by the few addresses of Hugging Face that snapshot_download uses.

    Attributes:
        repositories: {"owner/name": {"config.json": bytes, ...}}; each has the one commit COMMIT.
        gated: names of repositories that need permission.
        downloaded: names of the files whose content was sent.
        num_requests: number of all requests.
        address: of the server.
    """

    def __init__(self):
        self.repositories, self.gated, self.downloaded = {}, set(), []
        self.num_requests, self.address = 0, None

    def handle(self, handler):
        self.num_requests += 1
        words = urllib.parse.unquote(handler.path.partition("?")[0]).strip("/").split("/")
        is_api = words[:2] == ["api", "models"]
        name = "/".join(words[2:4] if is_api else words[:2])
        words = words[4:] if is_api else words[2:]
        files = self.repositories.get(name)
        if files is None:
            return handler.answer(404, X_Error_Code="RepoNotFound")
        if name in self.gated:
            return handler.answer(403, X_Error_Code="GatedRepo")
        revision = "/".join(words[1:]) if words[0] == "revision" else words[1]
        if revision not in ("main", "v1", "refs/pr/1", COMMIT):
            return handler.answer(404, X_Error_Code="RevisionNotFound")
        if words[0] == "resolve":
            return self._send(handler, files, "/".join(words[2:]))
        sizes = [{"type": "file", "path": path, "size": len(data), "oid": _oid(data)} for path, data in files.items()]
        info = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": path} for path in files]}
        body = json.dumps(sizes if words[0] == "tree" else info).encode()
        return handler.answer(200, body, Content_Type="application/json")

    def _send(self, handler, files, path):
        if path not in files:
            return handler.answer(404, X_Error_Code="EntryNotFound")
        if handler.command == "GET":
            self.downloaded.append(path)
        return handler.answer(200, files[path], ETag=f'"{_oid(files[path])}"', X_Repo_Commit=COMMIT)


def _oid(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@contextlib.contextmanager
def hugging_face():
    """Yields a running Hub."""
    hub = Hub()

    class Handler(_Handler):
        def do_GET(self):
            hub.handle(self)

        def do_HEAD(self):
            hub.handle(self)

    with _serving(Handler) as hub.address:
        yield hub
