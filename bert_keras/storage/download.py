"""Downloads files: resumed after an interruption, verified, and under their final name only when complete."""

import base64
import hashlib
import json
import logging
import os
import re
import shutil
import time
import zipfile
import zlib
from typing import Any

from bert_keras.storage import paths, writing

log = logging.getLogger("bert_keras")

PART_ENDING = ".part"
# Holds the length, the ETag and the MD5 that the server sent for the partial file.
STATE_ENDING = ".part.json"

_NUM_TRIES = 5
_SECONDS_BEFORE_TRY = 1.0  # doubled after each failure
_TIMEOUTS = (15, 60)  # seconds to connect, and between two reads
_CHUNK = 1 << 16  # a broken connection loses at most so many bytes


class _RetryError(Exception):
    """A failure that another try may overcome; its message is the reason."""


def download(address: str, file: str | os.PathLike, progress: Any = None) -> None:
    """Downloads a file, and continues a download that was interrupted.

    The data goes to `file` + ".part", which remains after a failure. The next call asks the server for the rest, unless
    the file on the server has changed. The server's length and MD5 must agree before the file gets its name.

    Args:
        address: str, http or https.
        file: path of the local file; must not exist.
        progress: an object with `start`, `advance` and `finish` as `cli.progress.Progress`, or None.

    Raises:
        FileNotFoundError: the server does not have the file.
        ConnectionError: the server cannot be reached, or the download failed in every try.
        ValueError: the downloaded data is not what the server promised.
        OSError: the disk is full or cannot be written, or another process downloads the same file.
    """
    part, file = f"{file}{PART_ENDING}", os.fspath(file)
    try:
        lock = writing.lock(part)
    except BlockingIOError:
        raise OSError(f"another process is downloading {file}; wait for it, or stop it") from None
    try:
        for number in range(1, _NUM_TRIES + 1):
            try:
                state = _fetch(address, file, progress)
                break
            except _RetryError as error:
                if number == _NUM_TRIES:
                    raise ConnectionError(
                        f"{address} could not be downloaded ({error}); {_what_remains(part)}"
                    ) from error.__cause__
                log.warning("%s: %s; trying again (%d of %d)", address, error, number, _NUM_TRIES - 1)
                time.sleep(_SECONDS_BEFORE_TRY * 2 ** (number - 1))
        _check_md5(part, state, address)
        writing.publish(part, file)
        _forget(file)
    finally:
        if os.path.exists(part) and not os.path.getsize(part):
            paths.remove(part)
            _forget(file)
        if lock is not None:
            lock.close()


def _fetch(address, file, progress):
    """Adds to the partial file all that it lacks. Returns the state: length (or None), etag and md5."""
    import requests

    part = f"{file}{PART_ENDING}"
    state: Any = _read_state(file)
    num_done = os.path.getsize(part) if state and os.path.exists(part) else 0
    if state and num_done == state["length"]:
        return state
    headers = {"Accept-Encoding": "identity"}
    if num_done:
        # With If-Range, the server sends the whole file if it is not the same any more.
        headers |= {"Range": f"bytes={num_done}-", "If-Range": state["etag"]}
    try:
        with requests.get(address, headers=headers, stream=True, timeout=_TIMEOUTS) as response:
            if response.status_code == 416:  # the partial file is longer than the file
                _forget(file)
                raise _RetryError("the partial file did not fit the file on the server")
            _check_status(response, address)
            if response.status_code != 206:
                num_done, state = 0, _begin(response, file)
            elif (response.headers.get("Content-Range") or "").split("-")[0] != f"bytes {num_done}":
                _forget(file)
                raise _RetryError("the server sent another part of the file than the one that was asked for")
            _check_room(file, state["length"], num_done)
            _append(response, part, num_done, state["length"], progress)
    except (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError) as error:
        raise _RetryError(_reason(error)) from error
    size = os.path.getsize(part)
    if state["length"] is not None and size != state["length"]:
        raise _RetryError(f"the connection ended after {size:,} of {state['length']:,} bytes")
    return state


def _append(response, part, num_done, length, progress):
    if progress:
        progress.start(f"downloading {paths.name(part).removesuffix(PART_ENDING)}", length or 0, "bytes")
        progress.advance(num_done)
    with open(part, "ab") as file:
        for chunk in response.iter_content(_CHUNK):
            try:
                file.write(chunk)
                file.flush()
            except OSError as error:
                raise OSError(
                    f"{part} cannot be written ({error.strerror}); make room on its disk, then run the same command"
                ) from error
            if progress:
                progress.advance(len(chunk))
    if progress:
        progress.finish()


def _begin(response, file):
    """Empties the partial file, and stores what the server says about the file. Returns the state."""
    hashes = re.findall(r"md5=([A-Za-z0-9+/=]+)", response.headers.get("x-goog-hash", ""))
    length = response.headers.get("Content-Length", "")
    etag = response.headers.get("ETag", "")
    state = {
        "length": int(length) if length.isdigit() else None,
        "etag": "" if etag.startswith("W/") else etag,  # a weak ETag does not promise the same bytes
        "md5": base64.b64decode(hashes[0]).hex() if hashes else None,
    }
    with open(f"{file}{PART_ENDING}", "wb"):
        pass
    writing.write_text(f"{file}{STATE_ENDING}", json.dumps(state) + "\n")
    return state


def _read_state(file):
    """Returns the state of a partial file that can be continued; None without one."""
    try:
        state = json.loads(paths.read_text(f"{file}{STATE_ENDING}"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and state.get("etag") and "length" in state and "md5" in state else None


def _forget(file):
    """Removes the state, so that the next request asks for the whole file."""
    paths.remove(f"{file}{STATE_ENDING}")


def _check_status(response, address):
    status = response.status_code
    if status in (200, 206):
        return
    if status in (408, 429) or status >= 500:
        raise _RetryError(f"the server answered {status} {response.reason}")
    raise FileNotFoundError(f"{address} cannot be downloaded: the server answered {status} {response.reason}")


def _check_room(file, length, num_done):
    free = shutil.disk_usage(paths.parent(file)).free
    if length is not None and length - num_done > free:
        raise OSError(
            f"{file} needs {(length - num_done) / 1e6:,.0f} MB, and its disk has {free / 1e6:,.0f} MB left; make room, "
            "or give a folder on another disk"
        )


def _check_md5(part, state, address):
    if state["md5"] is None:
        return
    with open(part, "rb") as file:
        found = hashlib.file_digest(file, "md5").hexdigest()
    if found != state["md5"]:
        paths.remove(part)
        _forget(part.removesuffix(PART_ENDING))
        raise ValueError(
            f"{address} arrived damaged: its MD5 is {found}, and the server announced {state['md5']}; the file was "
            "removed, so run the same command again"
        )


def _what_remains(part):
    size = os.path.getsize(part) if os.path.exists(part) else 0
    if not size:
        return "check the connection, and run the same command again"
    return f"{size:,} bytes are in {part}, and the same command continues from there"


def _reason(error):
    """Returns the innermost cause of an error of requests, in one line."""
    while error.__context__ is not None:
        error = error.__context__
    return str(error) or type(error).__name__


def unpack(zip_file: str | os.PathLike, folder: str | os.PathLike) -> None:
    """Unpacks the files of a zip file into a folder, without folders in it, and checks their CRCs.

    Files that are in one folder of the zip file, and files at its top, both arrive at the top of `folder`.

    Raises:
        ValueError: the zip file is damaged, or a name in it leads out of the folder or occurs in two folders.
        OSError: the disk is full.
    """
    try:
        with zipfile.ZipFile(zip_file) as archive:
            members = [member for member in archive.infolist() if not member.is_dir() and not _is_junk(member.filename)]
            _check_members(members, zip_file)
            needed, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
            if needed > free:
                raise OSError(
                    f"{zip_file} holds {needed / 1e6:,.0f} MB, and the disk of {folder} has {free / 1e6:,.0f} MB left; "
                    "make room, or give a folder on another disk"
                )
            for member in members:
                target = os.path.join(folder, os.path.basename(member.filename))
                with archive.open(member) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file, _CHUNK)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise ValueError(f"{zip_file} is damaged ({error}); remove it, and download it again") from error


def _is_junk(name):
    """Returns whether a member is a file that macOS adds."""
    return name.startswith("__MACOSX/") or os.path.basename(name) == ".DS_Store"


def _check_members(members, zip_file):
    for member in members:
        # On Windows, a backslash separates folders too.
        parts = re.split(r"[/\\]", member.filename)
        is_link = member.external_attr >> 28 == 0xA
        if ".." in parts or not parts[0] or ":" in parts[0] or is_link or member.flag_bits & 1:
            raise ValueError(
                f'{zip_file} holds "{member.filename}", which is not a plain file inside a folder; it is not the '
                "released file, so remove it"
            )
    if len({member.filename.rpartition("/")[0] for member in members}) > 1:
        raise ValueError(f"{zip_file} holds several folders; unpack it yourself, and give the folder of one model")
