"""Local and remote paths behave alike. TensorFlow's file system in memory, `ram://`, simulates an object store."""

import os
import subprocess
import sys
import uuid
import zipfile

import pytest

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths
from bert_keras.storage.remote_files import reason_of


def write(path, data):
    with paths.open_file(path, "wb") as file:
        file.write(data)
    return path


def test_bytes_and_text_come_back(folder):
    file = write(paths.join(folder, "a.txt"), "Grüße\r\nzweite\n".encode())
    assert paths.read_bytes(file) == "Grüße\r\nzweite\n".encode()
    assert paths.read_text(file) == "Grüße\nzweite\n"
    with paths.open_file(file, "r", newline="\n") as lines:
        assert list(lines) == ["Grüße\r\n", "zweite\n"]
    assert paths.size(file) == len("Grüße\r\nzweite\n".encode())
    assert paths.modified(file) > 0 or folder.startswith("ram://")  # ram:// has no modification times


def test_a_damaged_text_of_a_program_is_a_mistake(tmp_path):
    (tmp_path / "state.json").write_bytes(b"{}\xff")
    with pytest.raises(Mistake, match=r"state.json is damaged: byte 3 is not utf-8; restore it$"):
        paths.read_text(tmp_path / "state.json")


def test_a_file_can_be_sought_in_and_read_in_parts(folder):
    content = bytes(range(256)) * 8192  # two blocks of the buffer
    with paths.open_file(write(paths.join(folder, "a.bin"), content)) as file:
        file.seek(1_500_000)
        assert file.read(300) == content[1_500_000:1_500_300]
        assert file.tell() == 1_500_300
        file.seek(-5, 2)
        assert file.read() == content[-5:]
        file.seek(10)
        file.seek(5, 1)
        assert file.read(1) == content[15:16]


def test_a_zip_archive_can_be_written(folder):
    with paths.open_file(paths.join(folder, "a.zip"), "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", b"content")
    with paths.open_file(paths.join(folder, "a.zip")) as file, zipfile.ZipFile(file) as archive:
        assert archive.read("a.txt") == b"content"


def test_a_file_can_be_appended_to(folder):
    file = write(paths.join(folder, "a.txt"), b"one\n")
    with paths.open_file(file, "ab") as more:
        more.write(b"two\n")
    assert paths.read_bytes(file) == b"one\ntwo\n"


def test_existence_listing_and_patterns(folder):
    paths.make_dirs(paths.join(folder, "sub", "deep"))
    paths.make_dirs(paths.join(folder, "sub"))
    for name in ("b-2.txt", "b-1.txt", "c.txt"):
        write(paths.join(folder, name), b"x")
    assert paths.list_dir(folder) == ["b-1.txt", "b-2.txt", "c.txt", "sub"]
    assert paths.glob(paths.join(folder, "b-*.txt")) == [paths.join(folder, f"b-{n}.txt") for n in (1, 2)]
    assert paths.find(paths.join(folder, "c.txt")) == [paths.join(folder, "c.txt")]
    assert paths.exists(folder)
    assert paths.is_dir(paths.join(folder, "sub"))
    assert not paths.is_file(paths.join(folder, "sub"))
    assert paths.is_file(paths.join(folder, "c.txt"))
    assert not paths.exists(paths.join(folder, "d.txt"))


def test_files_are_moved_copied_and_removed(folder, tmp_path):
    old, new = write(paths.join(folder, "old"), b"1"), write(paths.join(folder, "new"), b"2")
    paths.move(old, new)
    assert paths.read_bytes(new) == b"1"
    assert not paths.exists(old)
    paths.copy(new, str(tmp_path / "copy"))
    paths.copy(tmp_path / "copy", old)
    assert paths.read_bytes(old) == b"1"
    paths.remove(old)
    paths.remove(old)
    assert not paths.exists(old)
    write(paths.join(folder, "sub", "file") if paths.is_remote(folder) else new, b"3")
    paths.remove_dir(folder)
    assert not paths.exists(new)


def test_a_missing_file_is_the_error_of_python(folder):
    missing = paths.join(folder, "missing.txt")
    for function in (paths.read_bytes, paths.size, paths.modified):
        with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
            function(missing)
    with pytest.raises(FileNotFoundError):
        paths.move(missing, paths.join(folder, "new"))
    with pytest.raises(OSError, match="missing"):
        paths.list_dir(paths.join(folder, "missing"))


def test_names_of_addresses_keep_their_slashes():
    assert paths.join("gs://bucket", "a", "b") == "gs://bucket/a/b"
    assert paths.parent("gs://bucket/a/b") == "gs://bucket/a"
    assert paths.name("gs://bucket/a/b") == "b"
    assert paths.real("gs://bucket/a/../b/") == "gs://bucket/a/../b"
    assert (paths.parent("file"), paths.parent("folder/file")) == (".", "folder")


def test_a_scheme_that_tensorflow_does_not_know_is_named():
    with pytest.raises((OSError, ValueError), match="nonsense"):
        paths.read_bytes("nonsense://bucket/file")


def test_local_files_need_no_tensorflow():
    code = (
        "import sys; from bert_keras.storage import checks, paths, writing; writing.write_text(sys.argv[1], 'x');"
        "assert paths.read_text(sys.argv[1]) == 'x'; paths.remove(sys.argv[1]);"
        "assert not {'tensorflow', 'numpy'} & set(sys.modules)"
    )
    file = f"/tmp/{uuid.uuid4().hex}"
    assert subprocess.run([sys.executable, "-c", code, file], check=False).returncode == 0


def test_reason_is_tensorflows_message_without_names_of_operations():
    import tensorflow as tf

    error = tf.errors.UnavailableError(None, None, "{{function_node step}} Socket closed:\nmore")
    assert reason_of(error) == "Socket closed"
    assert reason_of(tf.errors.UnknownError(None, None, "a; No space [Op:SaveV2]")) == "a; No space"
    assert reason_of(tf.errors.UnknownError(None, None, "")) == "UnknownError"


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../a", "a/../../b", "C:\\a", "C:a", "a\\..\\b", "gs://bucket/a", "a\0b", None, 1, ["a"]]
)
def test_a_name_in_a_file_cannot_leave_its_folder(folder, name):
    with pytest.raises(
        ValueError, match=r"^index\.json names .*, but a model names only files in its own folder; take"
    ):
        paths.inside(folder, name, "index.json")


def test_a_name_in_a_file_may_be_a_folder_or_a_link(tmp_path):
    (tmp_path / "a").symlink_to("/etc/hostname")  # as in the caches of Hugging Face
    for name in ("", "a", "1_Pooling/config.json"):
        assert paths.inside(tmp_path, name, "modules.json") == str(tmp_path / name).rstrip("/") + (
            "/" if not name else ""
        )


def test_what_this_user_may_not_read_exists(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("")
    paths.check_readable(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("/a"))
    for path in (tmp_path, tmp_path / "a"):
        with pytest.raises(
            PermissionError, match=r"/a exists, but you may not read it; ask its owner for the permission"
        ):
            paths.check_readable(path)

    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "stat", refuse)
    for function in (paths.exists, paths.is_file, paths.is_dir):
        with pytest.raises(PermissionError, match="Permission denied"):
            function("closed/a")


def test_the_reason_of_an_error_in_a_graph_is_not_its_place():
    import tensorflow as tf

    read = tf.function(lambda files: next(files), autograph=False)
    with pytest.raises(tf.errors.OpError) as caught:
        read(iter(tf.data.TFRecordDataset(["/none/records"])))
    assert reason_of(caught.value) == "/none/records; No such file or directory"
