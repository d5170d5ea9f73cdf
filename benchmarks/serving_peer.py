"""Serves a model of transformers or sentence-transformers over HTTP, for `benchmarks/serving.py`.

    python benchmarks/serving_peer.py transformers FOLDER PRECISION
    python benchmarks/serving_peer.py sentence-transformers FOLDER PRECISION

PRECISION is float32 or bfloat16.

The web framework is that of serve.py: Starlette and uvicorn. One thread calls the model, a text at a time, because
PyTorch uses all cores for a text; several threads at once would wait for each other. Prints the address.
"""

import asyncio
import concurrent.futures
import json
import os
import socket
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route


def open_classifier(folder, dtype):
    """Returns a function from the body of a request to that of the answer, with the pipeline of transformers."""
    import transformers

    classify = transformers.pipeline("text-classification", model=folder, top_k=None, device="cpu", dtype=dtype)

    def answer(body):
        found = {result["label"]: result["score"] for result in classify([body["text"]])[0]}
        return {"answers": [{"probabilities": found}]}

    return answer


def open_vectorizer(folder, dtype):
    """Returns a function from the body of a request to that of the answer, with sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu", model_kwargs={"dtype": dtype})

    def answer(body):
        return {"data": [{"embedding": model.encode([body["input"]], show_progress_bar=False)[0].tolist()}]}

    return answer


def main(kind, folder, precision):
    """Serves the model until the process is ended."""
    torch.set_num_threads(os.cpu_count() or 1)
    openers = {"transformers": open_classifier, "sentence-transformers": open_vectorizer}
    run = openers[kind](folder, getattr(torch, precision))
    thread = concurrent.futures.ThreadPoolExecutor(1)

    async def answer(request):
        body = json.loads(await request.body())
        found = await asyncio.get_running_loop().run_in_executor(thread, run, body)
        return Response(json.dumps(found), media_type="application/json")

    run(dict.fromkeys(("text", "input"), "A text to warm up."))
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as serve.py does
    print(f"serving at http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    app = Starlette(routes=[Route("/", answer, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
