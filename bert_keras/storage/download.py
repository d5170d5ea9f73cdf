"""Downloads files with Keras, which checks them against what the server announces; unpacks zip files."""

import base64
import os
import re
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Sequence

from bert_keras.mistakes import Mistake

_SECONDS_TO_ANSWER = 15
_CHUNK = 1 << 16


def download(address: str, folder: str | os.PathLike) -> str:
    """Downloads a file into a folder that no other process uses, and returns its path.

    The server announces length and MD5 in its header; both must agree. Keras shows a bar, unless
    `keras.utils.disable_interactive_logging` was called.

    Args:
        address: http or https.
        folder: an existing local folder. After a failure it holds no file, or a damaged one.

    Raises:
        ConnectionError: the server cannot be reached, does not have the file, or the connection broke.
        ValueError: the data is not what the server announced.
        OSError: the disk is too small.
    """
    import keras  # loads TensorFlow

    try:
        request = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(request, timeout=_SECONDS_TO_ANSWER) as response:
            headers = response.headers
    except OSError as error:
        raise _failed(address, error) from error
    _check_room(address, int(headers.get("Content-Length") or 0), folder)
    hashes = re.findall(r"md5=([A-Za-z0-9+/=]+)", ",".join(headers.get_all("x-goog-hash") or ()))
    md5 = base64.b64decode(hashes[0]).hex() if hashes else None
    try:
        return keras.utils.get_file(
            None, address, file_hash=md5, hash_algorithm="md5", cache_dir=os.fspath(folder), cache_subdir=""
        )
    except ValueError as error:
        raise Mistake(
            "{} arrived damaged: its MD5 is not the one that the server announced; run the same command again", address
        ) from error
    except Exception as error:  # of Keras, without a class of its own; the cause is in its context
        raise _failed(address, error.__context__ or error) from error


def _failed(address: str, error: BaseException) -> ConnectionError:
    """Returns the error for a download that did not succeed."""
    if isinstance(error, urllib.error.HTTPError):
        return ConnectionError(f"{address} cannot be downloaded: the server answered {error.code} {error.reason}")
    reason = getattr(error, "reason", error)
    return ConnectionError(
        f"{address} cannot be downloaded ({reason}); check the connection and the disk, and run the same command again"
    )


def _check_room(name: str, needed: int, folder: str | os.PathLike) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"{name} needs {needed / 1e6:,.0f} MB, and the disk has {free / 1e6:,.0f} MB left; make room, or give "
            "a folder on another disk"
        )


def unpack(zip_file: str | os.PathLike, folder: str | os.PathLike, name: str) -> None:
    """Unpacks the files of a zip file into a folder, without folders in it, and checks their CRCs.

    Files that are in one folder of the zip file, and files at its top, both arrive at the top of `folder`. Errors call
    the zip file `name`.

    Raises:
        ValueError: the zip file is damaged, or a name in it leads out of the folder or occurs in two folders.
        OSError: the disk is full.
    """
    try:
        with zipfile.ZipFile(zip_file) as archive:
            members = [member for member in archive.infolist() if not member.is_dir() and not _is_junk(member.filename)]
            _check_members(members, name)
            _check_room(name, sum(member.file_size for member in members), folder)
            for member in members:
                target = os.path.join(folder, os.path.basename(member.filename))
                with archive.open(member) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file, _CHUNK)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError) as error:
        raise Mistake("{} is damaged ({}); download it again", name, error) from error


def _is_junk(name: str) -> bool:
    """Returns whether a member is a file that macOS adds."""
    return name.startswith("__MACOSX/") or os.path.basename(name) == ".DS_Store"


def _check_members(members: Sequence[zipfile.ZipInfo], name: str) -> None:
    for member in members:
        # On Windows, a backslash separates folders too.
        parts = re.split(r"[/\\]", member.filename)
        is_link = member.external_attr >> 28 == 0xA
        if ".." in parts or not parts[0] or ":" in parts[0] or is_link or member.flag_bits & 1:
            raise Mistake(
                '{} holds "{}", which is not a plain file inside a folder, so it is not the released file',
                name,
                member.filename,
            )
    if len({member.filename.rpartition("/")[0] for member in members}) > 1:
        raise Mistake("{} holds several folders; unpack it yourself, and give the folder of one model", name)
