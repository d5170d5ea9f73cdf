"""Building with several processes gives the same result for any number of processes and after any interruption."""

import collections
import contextlib
import gzip
import hashlib
import os
import pathlib
import random

import numpy as np
import pytest
from tiny_data import examples_of
from tokenized import read_documents, tokenize_files

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.cleaning.filters import Cleaning
from bert_keras.data_prep.corpus import text_lines, text_sources
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, Workers, WorkFolder
from bert_keras.data_prep.pretraining import build as builder
from bert_keras.data_prep.pretraining import shuffling, tasks
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.instances import draw_document
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.records.reading import open_records
from bert_keras.data_prep.records.writing import read_metadata

SETTINGS = PretrainingDataSettings(16, 4, dupe_factor=2, random_seed=8)
# Of the files a and b that every version so far built from `text`.
DIGEST = "0fae8cc400a38277a3fdf406b356198745b10448e142b05d716ca6d0378c48b9"


@pytest.fixture
def text(tmp_path, monkeypatch):
    """A text of 60 documents; each task takes a few."""
    monkeypatch.setattr(tasks, "_FEWEST_TOKENS", 300)
    rng = random.Random(0)
    with open(tmp_path / "text.txt", "w") as file:
        for _ in range(60):
            for _ in range(rng.randint(1, 8)):
                file.write("".join(rng.choices("abcdefghi ", k=rng.randint(1, 12))) + "x\n")
            file.write("\n")
    return str(tmp_path / "text.txt")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


def build(text, tokenizer, folder, names=("a", "b"), num_workers=2, settings=SETTINGS, **options):
    outputs = [str(folder / name) for name in names]
    return build_pretraining_data(Build([text], outputs, tokenizer, settings, num_workers=num_workers, **options))


def build_here(text, tokenizer, folder, names=("a", "b"), **options):
    """Builds with the steps of several processes, in this process."""
    return build(text, tokenizer, folder, names, 1, start_workers=ThisProcess, **options)


def assert_is_built(folder):
    """Checks that the folder has the files of an unbroken build of `text`, and nothing else."""
    assert hashlib.sha256((folder / "a").read_bytes() + (folder / "b").read_bytes()).hexdigest() == DIGEST
    assert sorted(os.listdir(folder)) == ["a", "a.json", "b", "b.json"]


def test_number_of_workers_changes_nothing(text, letters_tokenizer, folder):
    for num_workers in (2, 3):
        summary = build(text, letters_tokenizer, folder, num_workers=num_workers)
        assert_is_built(folder)
    examples = {name: examples_of(folder / name) for name in ("a", "b")}
    counts = [len(examples[name]) for name in ("a", "b")]
    assert [read_metadata(str(folder / name))["num_examples"] for name in ("a", "b")] == counts
    assert sum(counts) == summary["instances"] > 100
    # Each record goes to a random file.
    assert abs(counts[0] - counts[1]) < 4 * sum(counts) ** 0.5
    num_random = sum(example["next_sentence_labels"][0] for name in "ab" for example in examples[name])
    assert summary["random_next_share"] * sum(counts) == pytest.approx(num_random)


def test_random_next_sentences_come_from_the_whole_corpus():
    vocab = {name: number for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    vocab.update({f"w{number}": number for number in range(5, 505)})
    documents = Documents(len(vocab))
    for token in range(5, 505):
        documents.add_sentence([[token]])
        documents.end_document()
    vocabulary, settings = MaskingVocabulary.from_vocab(vocab), PretrainingDataSettings(8, 1)
    seconds = []
    for duplicate in range(400):
        [(_, instance)] = draw_document(documents, 7, duplicate, settings, vocabulary)
        assert instance.is_random_next
        originals = dict(zip(instance.masked_lm_positions, instance.masked_lm_ids, strict=True))
        seconds.append(originals.get(instance.first_length, instance.tokens[instance.first_length]))
    assert min(seconds) < 30
    assert max(seconds) > 480
    assert sum(seconds) / 400 == pytest.approx(254, abs=25)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_killed_build_continues(text, letters_tokenizer, folder, monkeypatch, messages, num_workers):
    """After a kill in any task, no finished task is repeated and the files are the same."""
    expected = build(text, letters_tokenizer, folder.parent / "unbroken", num_workers=num_workers)
    workers = ThisProcess if num_workers == 1 else Workers
    run, stop, done = workers.run, [], []

    def run_and_stop(self, function, folder, tasks):
        finished = {name for name in tasks if folder.result(name)}
        for name, result in run(self, function, folder, tasks):
            if name not in finished:
                done.append(name)
                if name.startswith(stop[0]):
                    raise KeyboardInterrupt
            yield name, result

    monkeypatch.setattr(workers, "run", run_and_stop)
    kinds = ("text", "examples", *["examples"] * (num_workers > 1), "shard")
    for kind in kinds:
        stop[:] = [kind]
        with pytest.raises(KeyboardInterrupt):
            build(text, letters_tokenizer, folder, num_workers=num_workers)
        assert not any((folder / name).exists() for name in ("a", "b"))
        assert messages[-1].startswith(f"finished work is kept in {folder}/.a.")
    stop[:] = ["nothing"]
    assert build(text, letters_tokenizer, folder, num_workers=max(num_workers, 3 * num_workers - 3)) == expected
    for name in ("a", "b"):
        assert (folder / name).read_bytes() == (folder.parent / "unbroken" / name).read_bytes()
    assert sorted(os.listdir(folder)) == ["a", "a.json", "b", "b.json"]
    assert len(done) == len(set(done))
    assert sum(message.startswith("continuing from the finished work") for message in messages) == len(kinds)


@contextlib.contextmanager
def stopped_at(step, error=KeyboardInterrupt):
    """Makes the builds of the block fail before a step."""

    def fail(*_, **__):
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, step, fail)
        with pytest.raises(error):
            yield


@pytest.mark.parametrize("damage", [lambda path: os.truncate(path, path.stat().st_size // 2), pathlib.Path.unlink])
@pytest.mark.parametrize(
    ("step", "pattern"),
    [
        ("draw_all", "*/tokens"),
        ("merge_all", "*/examples*.records"),
        ("write_all", "*/merged*.records"),
        ("publish", "*/shard*.records"),
    ],
)
def test_damaged_work_is_done_again(step, pattern, damage, text, letters_tokenizer, folder, monkeypatch, messages):
    monkeypatch.setattr(shuffling, "MOST_RUNS", 3)
    with stopped_at(step):
        build_here(text, letters_tokenizer, folder)
    damaged = min(folder.glob(pattern))
    damage(damaged)
    build_here(text, letters_tokenizer, folder)
    assert_is_built(folder)
    assert f"{damaged} is missing or damaged; making it again" in messages


def test_small_files_share_tasks_and_keep_their_documents_and_warnings(
    tmp_path, letters_tokenizer, monkeypatch, messages
):
    """Documents and warnings are those of one process, wherever documents, files and tasks begin and end."""
    rng = random.Random(3)
    lines = [b"ab\n", b"c d\n", b"\n", b" \n", b"\x01\n", b"\xff\n", b"e\rf\n"]
    contents = [b"".join(rng.choices(lines, k=rng.randint(1, 4))) for _ in range(200)]
    files = [str(tmp_path / f"{number:03}") for number in range(len(contents))]
    for number, (file, content) in enumerate(zip(files, contents, strict=True)):
        pathlib.Path(file).write_bytes(gzip.compress(content) if number % 5 == 0 else content)
    expected = read_documents(files, letters_tokenizer)
    warnings, num_tasks = [line for line in messages if "copying" not in line], []
    assert sum(map(len, warnings)) > 200

    class Counting(ThisProcess):
        def run(self, function, folder, tasks):
            num_tasks[-1] += len(tasks)
            return super().run(function, folder, tasks)

    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("waited for the disk"))
    for size in (1 << 22, 30, 7):
        monkeypatch.setattr(text_lines, "_CHUNK_BYTES", size)
        monkeypatch.setattr(text_sources, "_TASK", 8 * size)
        messages.clear()
        num_tasks.append(0)
        with WorkFolder(str(tmp_path / f"work{size}")) as folder:
            work = Work(Counting((letters_tokenizer,)), folder, Progress())
            found, _ = tokenize_files(files, letters_tokenizer, work)
            for name in ("tokens", "sentence_starts", "document_starts"):
                assert list(getattr(found, name)) == list(getattr(expected, name))
            found.close()
        assert [line for line in messages if "copying" not in line] == warnings
    assert num_tasks[0] == 2
    assert 20 < num_tasks[1] < 90 < num_tasks[2]


@pytest.mark.parametrize("start_workers", [None, ThisProcess])
def test_notes_do_not_repeat_the_names_of_all_files(tmp_path, letters_tokenizer, start_workers):
    """The bytes of all notes grow with the number of inputs plus that of outputs, not with their product."""
    inputs = [str(tmp_path / f"text-{number:05}") for number in range(60)]
    for number, file in enumerate(inputs):
        pathlib.Path(file).write_text(f"ab {chr(97 + number % 26)}\nef {chr(97 + number // 26)}\n\n")
    outputs = [str(tmp_path / "out" / f"records-{number:05}") for number in range(40)]
    evals = [str(tmp_path / "out" / f"eval-{number:05}") for number in range(30)]
    cleaning = Cleaning(eval_share=0.3)
    build_pretraining_data(
        Build(
            inputs,
            outputs,
            letters_tokenizer,
            SETTINGS,
            start_workers=start_workers,
            cleaning=cleaning,
            eval_files=evals,
        )
    )
    names = {"input_file": inputs, "output_file": outputs, "eval_output_file": evals}
    notes = [read_metadata(file)["settings"] for file in [*outputs, *evals]]
    assert {name: notes[0][name] for name in names} == {name: ",".join(files) for name, files in names.items()}
    for note in notes[1:]:
        assert {note.pop(name) for name in names} == {"see records-00000.json"}
        assert note == {name: value for name, value in notes[0].items() if name not in names}
    sizes = [os.path.getsize(f"{file}.json") for file in [*outputs, *evals]]
    assert sum(sizes[1:]) < 70 * 3000
    # A few names stay in each note.
    build_pretraining_data(Build(inputs[:2], outputs[:2], letters_tokenizer, SETTINGS, start_workers=start_workers))
    assert read_metadata(outputs[1])["settings"]["input_file"] == ",".join(inputs[:2])


def test_merging_changes_no_byte_and_is_continued(text, letters_tokenizer, folder, monkeypatch, messages):
    monkeypatch.setattr(shuffling, "MOST_RUNS", 3)
    merge, merged = shuffling._merge_task, []

    def merge_and_stop(tools, folder, name, runs):
        if len(merged) == 2:
            merged.append(None)
            raise KeyboardInterrupt
        merged.append(name)
        return merge(tools, folder, name, runs)

    monkeypatch.setattr(shuffling, "_merge_task", merge_and_stop)
    with pytest.raises(KeyboardInterrupt):
        build_here(text, letters_tokenizer, folder)
    [work] = folder.iterdir()
    num_examples = len(list(work.glob("examples*.json")))
    assert len(list(work.glob("examples*.records"))) == num_examples - 6  # merging removes its inputs
    build_here(text, letters_tokenizer, folder)
    assert_is_built(folder)
    merged.remove(None)
    assert len(merged) == len(set(merged)) > 3
    assert any(name.startswith("merged-2-") for name in merged)
    assert not any("damaged" in message for message in messages)


def test_number_of_opened_files_grows_only_with_the_data(letters_tokenizer, tmp_path, monkeypatch):
    """Twice the data gives twice as many runs; each of the twice as many files reads only a few of them."""
    monkeypatch.setattr(shuffling, "MOST_RUNS", 4)
    monkeypatch.setattr(tasks, "_FEWEST_TOKENS", 40)
    monkeypatch.setattr(tasks, "_TASKS", 1 << 20)
    opened = collections.Counter()
    read = shuffling._Run.__init__
    monkeypatch.setattr(shuffling._Run, "__init__", lambda self, path: (opened.update([size]), read(self, path))[-1])
    for size in (20, 40, 80):
        (tmp_path / "text.txt").write_text("abc def\nghi jkl\n\n" * size)
        names = [str(number) for number in range(size // 5)]
        build_here(str(tmp_path / "text.txt"), letters_tokenizer, tmp_path / str(size), names)
    assert opened[20] > 15
    assert opened[80] < 1.4 * 2 * opened[40] < 1.4**2 * 4 * opened[20]


@pytest.mark.parametrize("options", [{}, {"cleaning": Cleaning(remove_duplicates="exact")}])
def test_copies_of_the_text_are_removed_when_it_is_tokenized(text, letters_tokenizer, folder, options):
    pathlib.Path(f"{text}.gz").write_bytes(gzip.compress(pathlib.Path(text).read_bytes()))
    with stopped_at("draw_all"):
        build_here(f"{text}.gz", letters_tokenizer, folder, **options)
    [work] = folder.iterdir()
    arrays = {"tokens", "sentence_starts", "document_starts"}
    assert {path.name for path in work.iterdir() if path.suffix != ".json"} == {*arrays, "lock"}
    build_here(f"{text}.gz", letters_tokenizer, folder, **options)
    assert_is_built(folder)


def test_other_settings_start_again_and_report_old_work(text, letters_tokenizer, folder, monkeypatch, messages):
    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(builder, "publish", fail)
        with pytest.raises(OSError, match=f"No space left on device: '{folder}'"):
            build_here(text, letters_tokenizer, folder, ["a"])
    [left] = [path for path in folder.iterdir() if path.suffix == ".unfinished"]
    build_here(text, letters_tokenizer, folder, ["a"], settings=PretrainingDataSettings(16, 4, dupe_factor=1))
    assert f"{left}: left by a build with other text, settings or code; delete it if not needed" in messages
    assert left.exists()


def test_unfinished_work_of_another_tokenizer_is_not_continued(text, letters_tokenizer, folder, monkeypatch):
    with stopped_at("draw_all"):
        build_here(text, letters_tokenizer, folder)
    monkeypatch.setattr("unicodedata.unidata_version", "99.0.0")
    with stopped_at("draw_all"):
        build_here(text, letters_tokenizer, folder)
    assert len(list(folder.iterdir())) == 2


def test_errors_that_are_not_about_the_text_keep_the_finished_work(text, letters_tokenizer, folder, monkeypatch):
    with stopped_at("write_all", ValueError):
        build_here(text, letters_tokenizer, folder)
    [work] = folder.iterdir()
    assert len(list(work.glob("examples-*.records"))) > 5
    monkeypatch.setattr(tasks, "_draw_task", None)  # all draw tasks are finished
    build_here(text, letters_tokenizer, folder)
    assert_is_built(folder)


def test_folder_of_another_process_is_not_touched(text, letters_tokenizer, folder):
    pytest.importorskip("fcntl")
    with stopped_at("draw_all"):
        build_here(text, letters_tokenizer, folder)
    [work] = folder.iterdir()
    for path in work.iterdir():
        path.unlink()
    with WorkFolder(str(work)):  # without results so far
        with pytest.raises(ValueError, match="another process is building the same files in .* now; wait for it, or"):
            build_here(text, letters_tokenizer, folder)
        assert os.listdir(work) == ["lock"]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="asks /proc what is mapped")
def test_work_folder_is_not_mapped_and_may_refuse_to_go(text, letters_tokenizer, folder, monkeypatch, messages):
    mapped = []

    def look_and_fail(path):
        mapped.append([line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if path in line])
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(builder.paths, "remove_dir", look_and_fail)
    build_here(text, letters_tokenizer, folder)
    assert mapped == [[]]
    assert (folder / "a").exists()
    assert messages[-1].endswith("is not needed any longer, but cannot be removed: Directory not empty")


def test_text_that_became_unreadable_is_named(text, letters_tokenizer, folder, monkeypatch):
    def fail(name, path, *_):
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr("bert_keras.data_prep.corpus.text_lines.open", fail, raising=False)
    with pytest.raises(OSError, match=f'^the input file "{text}" cannot be read: Input/output error$'):
        build_here(text, letters_tokenizer, folder)
    assert not folder.exists()


@pytest.mark.parametrize("start_workers", [None, ThisProcess])
@pytest.mark.parametrize(
    ("content", "settings", "sentence"),
    [
        (b"\n\n", {}, "no document was found in .*text; the text needs one sentence a line"),
        (b"a\n\xff\n", {"strict_utf8": True}, "text line 2: byte 0xff is not valid"),
        (b"a\n\nb\n", {"sentence_task": "sentence_order"}, "the text gives no examples: its documents have only one"),
    ],
)
def test_unusable_text_leaves_nothing(tmp_path, letters_tokenizer, folder, content, settings, sentence, start_workers):
    (tmp_path / "text").write_bytes(content)
    settings = PretrainingDataSettings(16, 4, **settings)
    with pytest.raises(ValueError, match=sentence):
        build(str(tmp_path / "text"), letters_tokenizer, folder, ["a"], 1, settings, start_workers=start_workers)
    assert sorted(os.listdir(tmp_path)) == ["letters.vocab", "text"]


def test_compressed_records_are_read_and_counted(text, letters_tokenizer, tmp_path):
    from bert_keras.engine.input.pretraining_batches import evaluation_batches

    for start_workers in (ThisProcess, None):
        build(text, letters_tokenizer, tmp_path, ["plain"], 1, start_workers=start_workers)
        build(text, letters_tokenizer, tmp_path, ["small.gz"], 1, is_gzip=True, start_workers=start_workers)
        assert gzip.decompress((tmp_path / "small.gz").read_bytes()) == (tmp_path / "plain").read_bytes()
    plain, small = (open_records(str(tmp_path / name), 16, 4, 57) for name in ("plain", "small.gz"))
    both = open_records(f"{tmp_path}/plain,{tmp_path}/small.gz", 16, 4, 57)
    assert plain.num_examples == small.num_examples
    assert list(both.compression_types) == ["", "GZIP"]
    ids = np.concatenate([batch["input_ids"] for batch in evaluation_batches(both, plain.total_examples)])
    assert ids[: len(ids) // 2].tolist() == ids[len(ids) // 2 :].tolist()
    assert len(ids) == 2 * plain.total_examples
    (tmp_path / "small.gz.json").unlink()
    assert open_records(str(tmp_path / "small.gz"), 16, 4, 57).num_examples == plain.num_examples
    compressed, content = ((tmp_path / name).read_bytes() for name in ("small.gz", "plain"))
    # The compressed file is cut short, or whole and its last record is: in the record, its checksum or its header.
    cut_records = [content[:-1], content[:-4], content[:-90], content + bytes(11)]
    for damaged in [compressed[: len(compressed) // 2], *map(gzip.compress, cut_records)]:
        (tmp_path / "small.gz").write_bytes(damaged)
        with pytest.raises(ValueError, match="small.gz is not a whole TFRecord file: it ends or is damaged in example"):
            open_records(str(tmp_path / "small.gz"), 16, 4, 57)
