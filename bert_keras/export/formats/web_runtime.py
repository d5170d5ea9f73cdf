"""ONNX Runtime Web, the library that runs a model in a browser: downloaded from npm once, and verified."""

import base64
import hashlib
import importlib.resources
import logging
import pathlib
import shutil
import subprocess
import tarfile

from bert_keras.mistakes import MissingFile, Mistake, SystemFailure
from bert_keras.storage import writing

log = logging.getLogger("bert_keras")

VERSION = "1.30.0"
# SHA-512 of the package, as npm lists it.
_INTEGRITY = "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
_PACKAGE = f"onnxruntime-web@{VERSION}"
_FILE = f"onnxruntime-web-{VERSION}.tgz"
# The library without WebGPU and WebGL, and its WebAssembly.
_PARTS = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
# The Python package onnxruntime, a build of the same code, has these files; the package on npm lacks them.
_LICENSES = {"LICENSE": "onnxruntime-LICENSE.txt", "ThirdPartyNotices.txt": "onnxruntime-ThirdPartyNotices.txt"}


def cached_package() -> pathlib.Path:
    """Returns the place of the downloaded package, which may not exist."""
    return pathlib.Path.home() / ".cache" / "bert-keras" / _FILE


def find_package(given: str | None = None) -> pathlib.Path:
    """Returns the path of the package: the given one, the one in the cache, or downloads it with npm.

    Raises:
        FileNotFoundError: the given file does not exist.
        ValueError: npm is not installed, or the file is not the package of this version.
        ConnectionError: npm cannot download the package.
    """
    if given:
        if not pathlib.Path(given).is_file():
            raise MissingFile("{onnxruntime_web}={} is not a file; give the file {}", given, _FILE)
        if not _is_whole(pathlib.Path(given)):
            raise Mistake(
                "{onnxruntime_web}={0} is not {1}, or it is damaged; give the file that `npm pack {1}` writes",
                given,
                _PACKAGE,
            )
        return pathlib.Path(given)
    file = cached_package()
    if not (file.is_file() and _is_whole(file)):
        _download(file)
    return file


def write_runtime(package: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the files of the library that a page needs, and their licences, into a folder."""
    with tarfile.open(package) as archive:
        for name in _PARTS:
            part = archive.extractfile(f"package/dist/{name}")
            assert part is not None  # the package is verified
            (folder / name).write_bytes(part.read())
    for name, written in _LICENSES.items():
        (folder / written).write_bytes(importlib.resources.files("onnxruntime").joinpath(name).read_bytes())


def _download(file: pathlib.Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Mistake(
            "{format}=web needs {0}, which npm downloads, and npm is not installed; install Node.js 20 or "
            "later, or give the file that `npm pack {0}` writes on another computer as {onnxruntime_web}",
            _PACKAGE,
        )
    log.info("downloading %s with npm to %s", _PACKAGE, file)
    file.parent.mkdir(parents=True, exist_ok=True)
    with writing.scratch(file) as folder:
        process = subprocess.run(
            [npm, "pack", _PACKAGE], cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
        written = pathlib.Path(folder, _FILE)
        if process.returncode or not written.is_file():
            lines = process.stderr.decode(errors="replace").strip().splitlines()
            reason = next((line for line in lines if "error" in line.lower()), "no message")
            raise SystemFailure(
                "npm cannot download {} ({}); check the connection, or give its file as {onnxruntime_web}",
                _PACKAGE,
                reason,
            )
        if not _is_whole(written):
            raise Mistake("npm downloaded {} with other contents than expected; try another registry", _PACKAGE)
        writing.publish(written, file)


def _is_whole(file: pathlib.Path) -> bool:
    with open(file, "rb") as content:
        return base64.b64encode(hashlib.file_digest(content, "sha512").digest()).decode() == _INTEGRITY
