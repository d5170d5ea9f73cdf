"""Serves models over HTTP.

    python serve.py --model_dir=output
    python serve.py --model=reviews=output --model=questions=squad_output
    python serve.py --model=bert=uncased_L-12_H-768_A-12 --task=fill_mask,vectors

A model is the folder of a fine-tuning run, an export, or a checkpoint of pre-training. A folder with numbered models,
such as news/1 and news/2, answers with the newest, and changes to a newer one that appears. The program prints the
address, which has a page to try the models; GET /models lists them with their routes. The port opens when the models
are loaded; /readyz answers 200 when all are warm. Each request is a line of JSON on standard output; everything else
goes to standard error. SIGTERM and Ctrl-C let the running requests finish.
"""

import concurrent.futures
import dataclasses
import functools
import logging
import os
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, parse
from bert_keras.cli.served_models import define_served_models, folders_by_name, read_token
from bert_keras.cli.server_address import hosts_of, listen, open_port
from bert_keras.cli.start import start_tensorflow
from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import Limits, answer_precision
from bert_keras.settings.fields import define_group, read_flags, setting
from bert_keras.tasks import abilities

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Serving:
    """The address, and the limits of requests."""

    task: tuple[str, ...] = setting(
        f"Tasks of checkpoints of pre-training: {', '.join(abilities(is_pretrained=True))}. Of a model of another "
        "library: its task.",
        (),
    )
    precision: str = answer_precision()
    host: str = setting("Address to listen at; 0.0.0.0 for all of this machine.", "127.0.0.1")
    port: int = setting("Port; 0 for a free one.", 8501, lower_bound=0, upper_bound=65535)
    token_file: str | None = setting("File with the bearer token that requests must have.", None)
    cors_origins: tuple[str, ...] = setting("Web origins whose pages may call the server from a browser.", ())
    max_batch_tokens: int = setting("Maximum number of tokens in a batch, padding included.", 4096, lower_bound=1)
    batch_timeout_ms: int = setting(
        "Time that a text waits for others to share its batch, unless texts come one by one.", 2, lower_bound=0
    )
    max_queue: int = setting("Maximum number of requests at once; further ones get the status 429.", 256, lower_bound=1)
    timeout_ms: int = setting(
        "Time until a request gets the status 504. The header X-Timeout-Ms can lower it.", 30_000, lower_bound=1
    )
    max_body_bytes: int = setting("Maximum size of a request.", 8 << 20, lower_bound=1)
    max_items: int = setting("Maximum number of texts in a request.", 1000, lower_bound=1)
    max_chars: int = setting("Maximum number of characters in a text.", 100_000, lower_bound=1)
    max_sequences: int = setting(
        "Maximum number of sequences of a text: windows, choices, tokens to score, hidden words.", 1000, lower_bound=1
    )
    max_masks: int = setting("Maximum number of [MASK]s in a text.", 100, lower_bound=1)


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    values = flags.FlagValues()
    define_served_models(values)
    define_group(values, "Address and limits", Serving)
    return values


def main(argv: list[str]) -> None:
    """Runs the program, given its name and its flags, until a signal stops it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_at_once)
    values = define_flags()
    parse(values, argv, __doc__)
    open_console(stderr=True)
    settings, folders = read_flags(Serving, values), folders_by_name(values)
    pretrained, fine_tuned = [*abilities(is_pretrained=True)], [*abilities(is_fine_tuned=True)]
    if wrong := [task for task in settings.task if task not in (*pretrained, *fine_tuned)]:
        raise Mistake("--task has {}, but the tasks are {} and {}", wrong[0], pretrained, fine_tuned)
    token = read_token(settings.token_file)
    try:
        import orjson  # noqa: F401 (the newest package of the extra)
        import uvicorn  # noqa: F401
    except ImportError:
        raise Mistake("serve.py needs other packages; install them with pip install 'bert-keras[serve]'") from None
    with open_port(settings.host, settings.port) as listener:
        start_tensorflow()
        # In a thread, so that a signal ends the program while a long step runs.
        with concurrent.futures.ThreadPoolExecutor(1) as loader:
            app, timeout = loader.submit(open_app, settings, folders, token).result()
        serve(app, listener, settings.max_queue, timeout)


def open_app(settings: Serving, folders: dict[str, str], token: str | None) -> tuple[Any, float]:
    """Returns the application with its models, and the seconds until a request has its answer."""
    from bert_keras.serving.app import Server, ServerSettings  # loads TensorFlow
    from bert_keras.serving.versions import open_folders

    limits = Limits(settings.max_items, settings.max_chars, settings.max_sequences, settings.max_masks)
    options = ServerSettings(
        max_batch_tokens=settings.max_batch_tokens,
        batch_timeout=settings.batch_timeout_ms / 1000,
        max_queue=settings.max_queue,
        timeout=settings.timeout_ms / 1000,
        max_body_bytes=settings.max_body_bytes,
        max_items=settings.max_items,
        token=token,
        cors_origins=tuple(settings.cors_origins),
        hosts=() if token else hosts_of(settings.host),
    )
    return Server(open_folders(folders, settings.task, limits, settings.precision), options).app, options.timeout


def serve(app: Any, listener: socket.socket, max_queue: int, timeout: float) -> None:
    """Serves an application until a signal, lets the running requests finish, and ends the process."""
    from bert_keras.serving.connections import BoundedServer, config_of
    from bert_keras.serving.middleware import open_request_log

    server = BoundedServer(config_of(app, timeout), max_queue, timeout)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)
    log.info("serving at %s", listen(listener, server.config.backlog))
    log_lines = open_request_log(sys.stdout)
    server.run(sockets=[listener])
    log.info("stopped; the running requests have finished")
    # The log has 5 seconds for its last lines, which nobody may read.
    writing = threading.Thread(target=log_lines.stop, daemon=True)
    writing.start()
    writing.join(5.0)
    end_at_once()


def end_at_once(*_: object) -> NoReturn:
    """Ends the process with status 0. An ordinary end would wait for TensorFlow's threads, or abort because of them."""
    os._exit(0)


run_program = functools.partial(as_program, main)
