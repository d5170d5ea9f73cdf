#!/usr/bin/env python3
"""Serves models over HTTP.

    python serve.py --model_dir=output
    python serve.py --model=reviews=output --model=questions=squad_output
    python serve.py --model=bert=uncased_L-12_H-768_A-12 --tasks=fill_mask,vectors

A model is the folder of a fine-tuning run, an export, a checkpoint of pre-training, or a folder of numbered
SavedModels. SavedModels and exports that have one also answer in the form of TensorFlow Serving. The program prints the
address, which has a page to try the models; GET /models lists them with their routes. /readyz answers 200 when all
models are warm. Each request is a line of JSON on standard output; everything else goes to standard error. SIGTERM and
Ctrl-C let the running requests finish.
"""

import logging
import signal
import socket
import sys
from typing import Any

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, run_main
from bert_keras.cli.served_models import define_served_models, folders_by_name, labels_by_name, read_token
from bert_keras.cli.start import start_tensorflow
from bert_keras.prediction.arguments import Limits, told_with_flags
from bert_keras.prediction.tasks.registry import PRETRAINED_TASKS

log = logging.getLogger("bert_keras")

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
    values = define_flags()
    parse(values, argv, __doc__)
    open_console(stderr=True)
    folders, labels = folders_by_name(values), labels_by_name(values)
    if wrong := [task for task in values.tasks if task not in (*PRETRAINED_TASKS, "vectors")]:
        raise ValueError(f"--tasks has {wrong[0]}, but the tasks are {', '.join(PRETRAINED_TASKS)} and vectors")
    token = read_token(values.token_file)
    try:
        import uvicorn
    except ImportError:
        raise ValueError("serve.py needs other packages; install them with pip install 'bert-keras[serve]'") from None
    with socket.create_server((values.host, values.port), backlog=2048) as listener:
        # Without it, an answer may wait 40 ms for the client to confirm its first part.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        start_tensorflow()
        from bert_keras.serving.app import Server, ServerSettings  # loads TensorFlow
        from bert_keras.serving.middleware import open_request_log
        from bert_keras.serving.served_models import open_models, open_versions

        with told_with_flags():
            limits = Limits(values.max_items, values.max_chars, values.max_sequences, values.max_masks)
            versioned = open_versions(folders, labels)
            models = open_models(folders, values.tasks, limits)
        settings = ServerSettings(
            max_batch_tokens=values.max_batch_tokens,
            batch_timeout=values.batch_timeout_ms / 1000,
            max_queue=values.max_queue,
            timeout=values.timeout_ms / 1000,
            max_body_bytes=values.max_body_bytes,
            max_items=values.max_items,
            token=token,
            cors_origins=tuple(values.cors_origins),
        )
        config = uvicorn.Config(
            Server(models, settings, versioned).app,
            log_config=None,
            access_log=False,
            # A request that is already running has at most its own deadline left.
            timeout_graceful_shutdown=int(settings.timeout) + 1,
        )
        log.info("serving at http://%s:%d", values.host, listener.getsockname()[1])
        log_lines = open_request_log(sys.stdout)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            log.info("stopped; the running requests have finished")
        finally:
            log_lines.stop()


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
