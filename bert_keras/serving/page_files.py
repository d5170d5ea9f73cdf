"""The files of the page, and their routes."""

import importlib.resources

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
# The page takes everything from this server, and no text can become a script.
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
# The page of a web export has another file under this name.
_RENAMED = {"backend.js": "server_backend.js"}


def page_routes() -> list[Route]:
    """Returns the routes of the page: / leads to it, and /page/ has its files."""
    folder = importlib.resources.files("bert_keras.serving") / "page"
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.rpartition(".")[2] in _KINDS}

    async def send_file(request: Request) -> Response:
        name = request.path_params["name"] or "index.html"
        content = files.get(_RENAMED.get(name, name))
        if content is None:
            raise HTTPException(404)
        return Response(content, headers=_HEADERS, media_type=_KINDS[name.rpartition(".")[2]])

    async def go_to_page(request: Request) -> Response:
        return RedirectResponse("page/")

    return [Route("/", go_to_page), Route("/page", go_to_page), Route("/page/{name:path}", send_file)]
