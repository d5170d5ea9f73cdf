#!/usr/bin/env python3
"""Serves models over HTTP.

    python serve.py --model_dir=output
    python serve.py --model=reviews=output --model=questions=squad_output
    python serve.py --model=bert=uncased_L-12_H-768_A-12 --tasks=fill_mask,vectors

A model is the folder of a fine-tuning run, an export, or a checkpoint of pre-training. A folder with numbered models,
such as news/1 and news/2, answers with the newest, and changes to a newer one that appears. The program prints the
address, which has a page to try the models; GET /models lists them with their routes. The port opens when the models
are loaded; /readyz answers 200 when all are warm. Each request is a line of JSON on standard output; everything else
goes to standard error. SIGTERM and Ctrl-C let the running requests finish.
"""

import concurrent.futures
import logging
import os
import signal
import sys
import threading
from typing import Any

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, run_main
from bert_keras.cli.served_models import define_served_models, folders_by_name, read_token
from bert_keras.cli.server_address import hosts_of, listen, open_port
from bert_keras.cli.start import start_tensorflow
from bert_keras.prediction.arguments import Limits
from bert_keras.prediction.tasks.registry import PRETRAINED_TASKS

log = logging.getLogger("bert_keras")

# Time for the last lines of the log when the program ends.
_SECONDS_TO_WRITE = 5.0

# Name -> default, lowest value, meaning.
_NUMBERS = {
    "max_batch_tokens": (4096, 1, "Maximum number of tokens in a batch, padding included."),
    "batch_timeout_ms": (2, 0, "Time that a text waits for others to share its batch, unless texts come one by one."),
    "max_queue": (256, 1, "Maximum number of requests at a time; further ones get the status 429."),
    "timeout_ms": (30_000, 1, "Time until a request gets the status 504. The header X-Timeout-Ms can lower it."),
    "max_body_bytes": (8 << 20, 1, "Maximum size of a request."),
    "max_items": (1000, 1, "Maximum number of texts in a request."),
    "max_chars": (100_000, 1, "Maximum number of characters in a text."),
    "max_sequences": (1000, 1, "Maximum number of sequences that a text needs: windows, choices, or tokens to score."),
    "max_masks": (100, 1, "Maximum number of [MASK]s in a text."),
}


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    define_served_models(values)
    tasks = [*PRETRAINED_TASKS, "vectors"]
    flags.DEFINE_list("tasks", [], f"Tasks of checkpoints of pre-training: {', '.join(tasks)}.", **define)
    flags.DEFINE_string("host", "127.0.0.1", "Address to listen at; 0.0.0.0 for all of this machine.", **define)
    flags.DEFINE_integer("port", 8501, "Port; 0 for a free one.", lower_bound=0, upper_bound=65535, **define)
    flags.DEFINE_string("token_file", None, "File with the bearer token that requests must have.", **define)
    flags.DEFINE_list("cors_origins", [], "Web origins whose pages may call the server from a browser.", **define)
    for name, (default, lowest, meaning) in _NUMBERS.items():
        flags.DEFINE_integer(name, default, meaning, lower_bound=lowest, **define)
    return values


def main(argv):
    """Runs the program, given its name and its flags as a list of str, until a signal stops it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end_at_once)
    values = define_flags()
    parse(values, argv, __doc__)
    open_console(stderr=True)
    folders = folders_by_name(values)
    if wrong := [task for task in values.tasks if task not in (*PRETRAINED_TASKS, "vectors")]:
        raise ValueError(f"--tasks has {wrong[0]}, but the tasks are {', '.join(PRETRAINED_TASKS)} and vectors")
    token = read_token(values.token_file)
    try:
        import orjson  # noqa: F401 (the newest package of the extra)
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError("serve.py needs other packages; install them with pip install 'bert-keras[serve]'") from None
    with open_port(values.host, values.port) as listener:
        start_tensorflow()
        # In a thread, so that a signal ends the program while a long step runs.
        with concurrent.futures.ThreadPoolExecutor(1) as loader:
            app, timeout = loader.submit(open_app, values, folders, token).result()
        serve(app, listener, values.max_queue, timeout)


def open_app(values, folders, token):
    """Returns the application with its models, and the seconds until a request has its answer."""
    from bert_keras.serving.app import Server, ServerSettings  # loads TensorFlow
    from bert_keras.serving.served_models import open_models
    from bert_keras.serving.versions import open_versioned

    limits = Limits(values.max_items, values.max_chars, values.max_sequences, values.max_masks)
    models = open_models(folders, values.tasks, limits)
    versioned = open_versioned(folders, values.tasks, limits)
    settings = ServerSettings(
        max_batch_tokens=values.max_batch_tokens,
        batch_timeout=values.batch_timeout_ms / 1000,
        max_queue=values.max_queue,
        timeout=values.timeout_ms / 1000,
        max_body_bytes=values.max_body_bytes,
        max_items=values.max_items,
        token=token,
        cors_origins=tuple(values.cors_origins),
        hosts=() if token else hosts_of(values.host),
    )
    return Server(models, settings, versioned).app, settings.timeout


def serve(app, listener, max_queue, timeout):
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
    # Nobody may read the lines that are left.
    writing = threading.Thread(target=log_lines.stop, daemon=True)
    writing.start()
    writing.join(_SECONDS_TO_WRITE)
    end_at_once()


def end_at_once(*_):
    """Ends the process with status 0. An ordinary end would wait for TensorFlow's threads, or abort because of them."""
    os._exit(0)


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
