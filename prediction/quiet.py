"""What other libraries write while they work, kept from the user."""

import contextlib
import io
import logging
import os
import sys
import tempfile
import warnings


@contextlib.contextmanager
def quietly():
    """Holds back all that is written to standard output and standard error, log lines and warnings.

    Also what is written beneath Python, by compiled code. Errors are raised as ever.
    """
    disabled = logging.root.manager.disable
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        # Where they are not the descriptors below, as in a notebook.
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        logging.disable(logging.CRITICAL)
        for number in (1, 2):
            os.dup2(said.fileno(), number)
        try:
            yield
        finally:
            for number, descriptor in zip((1, 2), kept, strict=True):
                os.dup2(descriptor, number)
                os.close(descriptor)
            logging.disable(disabled)
