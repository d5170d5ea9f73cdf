"""Building with several processes gives the same result for any number of processes and after any interruption."""

import collections
import contextlib
import hashlib
import os
import pathlib
import random

import pytest
from tiny_data import examples_of

from bert_keras.data_prep.corpus.documents import Documents, read_documents
from bert_keras.data_prep.corpus.workers import ThisProcess, Workers, WorkFolder
from bert_keras.data_prep.pretraining import build_steps, parallel_build, shuffling
from bert_keras.data_prep.pretraining.build import build_pretraining_data
from bert_keras.data_prep.pretraining.build_steps import Tools, draw_document
from bert_keras.data_prep.pretraining.instances import PretrainingDataSettings
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.records.reading import open_records
from bert_keras.data_prep.records.writing import read_metadata

SETTINGS = PretrainingDataSettings(16, 4, dupe_factor=2, random_seed=8)


@pytest.fixture
def text(tmp_path, monkeypatch):
    """A text of 60 documents; each task takes a few."""
    monkeypatch.setattr(build_steps, "_FEWEST_TOKENS", 300)
    rng = random.Random(0)
    with open(tmp_path / "text.txt", "w") as file:
        for _ in range(60):
            for _ in range(rng.randint(1, 8)):
                file.write("".join(rng.choices("abcdefghi ", k=rng.randint(1, 12))) + "x\n")
            file.write("\n")
    return str(tmp_path / "text.txt")


def build(text, tokenizer, folder, names, num_workers, settings=SETTINGS, **options):
    outputs = [str(folder / name) for name in names]
    return build_pretraining_data([text], outputs, tokenizer, settings, num_workers=num_workers, **options)


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_files_are_the_same_for_every_number_of_workers(text, letters_tokenizer, tmp_path):
    folder, found = tmp_path / "out", {}
    for num_workers in (2, 3):
        summary = build(text, letters_tokenizer, folder, ["a", "b"], num_workers)
        found[num_workers] = bytes_of(folder)
    assert sorted(found[2]) == ["a", "a.json", "b", "b.json"]
    assert found[2] == found[3]
    examples = {name: examples_of(folder / name) for name in ("a", "b")}
    counts = [len(examples[name]) for name in ("a", "b")]
    assert [read_metadata(str(folder / name))["num_examples"] for name in ("a", "b")] == counts
    assert sum(counts) == summary["instances"] > 100
    # Each record goes to a random file.
    assert abs(counts[0] - counts[1]) < 4 * sum(counts) ** 0.5
    assert summary["random_next_share"] * sum(counts) == pytest.approx(
        sum(example["next_sentence_labels"][0] for name in "ab" for example in examples[name])
    )


def test_examples_are_those_of_each_document_in_a_new_order(text, letters_tokenizer, tmp_path):
    build(text, letters_tokenizer, tmp_path, ["out"], 2)
    documents = read_documents([text], letters_tokenizer)
    tools = Tools(letters_tokenizer, MaskingVocabulary.from_vocab(letters_tokenizer.vocab), SETTINGS)
    drawn = [
        pair
        for number_of_pass in range(2)
        for index in range(len(documents))
        for pair in draw_document(documents, index, number_of_pass, tools)
    ]
    expected = [instance.features(SETTINGS) for _, instance in sorted(drawn, key=lambda pair: pair[0])]
    assert [dict(sorted(example.items())) for example in examples_of(tmp_path / "out")] == [
        dict(sorted(features.items())) for features in expected
    ]


def test_random_next_sentences_come_from_the_whole_corpus():
    vocab = {name: number for number, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])}
    vocab.update({f"w{number}": number for number in range(5, 505)})
    documents = Documents(len(vocab))
    for token in range(5, 505):
        documents.add_sentence([token])
        documents.end_document()
    settings = PretrainingDataSettings(8, 1)

    tools = Tools(None, MaskingVocabulary.from_vocab(vocab), settings)
    seconds = []
    for number_of_pass in range(400):
        [(_, instance)] = draw_document(documents, 7, number_of_pass, tools)
        assert instance.is_random_next
        tokens = dict(enumerate(instance.tokens)) | dict(
            zip(instance.masked_lm_positions, instance.masked_lm_ids, strict=True)
        )
        seconds.append(tokens[instance.first_length])
    assert min(seconds) < 30
    assert max(seconds) > 480
    assert sum(seconds) / 400 == pytest.approx(254, abs=25)


def test_a_build_goes_on_where_it_was_killed(text, letters_tokenizer, tmp_path, monkeypatch, messages):
    """After a kill in any task, no finished task is repeated and the files are the same."""
    expected_dir = tmp_path / "at once"
    build(text, letters_tokenizer, expected_dir, ["a", "b"], 2)
    expected = {name: (expected_dir / name).read_bytes() for name in ("a", "b")}
    run, stop, done = Workers.run, [], []

    def run_and_stop(self, function, folder, tasks):
        finished = {name for name in tasks if folder.result(name)}
        for name, result in run(self, function, folder, tasks):
            if name not in finished:
                done.append(name)
                if name.startswith(stop[0]):
                    raise KeyboardInterrupt
            yield name, result

    monkeypatch.setattr(Workers, "run", run_and_stop)
    folder = tmp_path / "out"
    for kind in ("text", "examples", "examples", "shard"):
        stop[:] = [kind]
        with pytest.raises(KeyboardInterrupt):
            build(text, letters_tokenizer, folder, ["a", "b"], 2)
        assert not any((folder / name).exists() for name in ("a", "b"))
        assert messages[-1].startswith(f"finished work is kept in {folder}/.a.")
    stop[:] = ["nothing"]
    build(text, letters_tokenizer, folder, ["a", "b"], 3)
    assert {name: (folder / name).read_bytes() for name in ("a", "b")} == expected
    assert sorted(path.name for path in folder.iterdir()) == ["a", "a.json", "b", "b.json"]
    assert len(done) == len(set(done))
    assert sum(message.startswith("continuing from the finished work") for message in messages) == 4


def build_here(text, tokenizer, folder, names=("a", "b"), **options):
    """Builds with the steps of several processes, in this process."""
    return build(text, tokenizer, folder, names, 1, start_workers=ThisProcess, **options)


@pytest.fixture
def built(text, letters_tokenizer, tmp_path):
    """The record files of `text`."""
    build_here(text, letters_tokenizer, tmp_path / "at once")
    return {name: (tmp_path / "at once" / name).read_bytes() for name in ("a", "b")}


def test_the_files_are_those_of_earlier_versions(built):
    digest = hashlib.sha256(built["a"] + built["b"]).hexdigest()
    assert digest == "0fae8cc400a38277a3fdf406b356198745b10448e142b05d716ca6d0378c48b9"


def stop_at(step, monkeypatch):
    """Makes a build fail before a step; returns the error."""
    error = KeyboardInterrupt()

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(parallel_build if step == "publish" else build_steps, step, fail)
    return KeyboardInterrupt


STOPS = {"corpus": "draw_all", "examples": "merge_all", "merged": "write_all"}
STOPS["shard"] = "publish"


@pytest.mark.parametrize("damage", [lambda path: os.truncate(path, path.stat().st_size // 2), pathlib.Path.unlink])
@pytest.mark.parametrize("kind", ["corpus", "examples", "merged", "shard"])
def test_what_was_damaged_since_is_made_again(
    kind, damage, text, built, letters_tokenizer, tmp_path, monkeypatch, messages
):
    monkeypatch.setattr(build_steps, "MOST_RUNS", 3)
    folder = tmp_path / "out"
    for step in (STOPS[kind], "nothing"):
        with monkeypatch.context() as patch, contextlib.ExitStack() as stack:
            if step != "nothing":
                stack.enter_context(pytest.raises(stop_at(step, patch)))
            build_here(text, letters_tokenizer, folder)
        if step != "nothing":
            patterns = {"corpus": "*/tokens", "shard": ".a.*.partial"}
            [damaged, *_] = sorted(folder.glob(patterns.get(kind, f"*/{kind}*.records")))
            damage(damaged)
    assert {name: (folder / name).read_bytes() for name in ("a", "b")} == built
    assert f"{damaged} is missing or damaged; making it again" in messages
    assert sorted(os.listdir(folder)) == ["a", "a.json", "b", "b.json"]


def test_merging_changes_no_byte_and_is_continued(text, built, letters_tokenizer, tmp_path, monkeypatch, messages):
    monkeypatch.setattr(build_steps, "MOST_RUNS", 3)
    merge, merged = build_steps._merge_task, []

    def merge_and_stop(tools, folder, name, runs):
        if len(merged) == 2:
            merged.append(None)
            raise KeyboardInterrupt
        merged.append(name)
        return merge(tools, folder, name, runs)

    monkeypatch.setattr(build_steps, "_merge_task", merge_and_stop)
    with pytest.raises(KeyboardInterrupt):
        build_here(text, letters_tokenizer, tmp_path / "out")
    [work] = (tmp_path / "out").iterdir()
    num_examples = len(list(work.glob("examples*.json")))
    assert len(list(work.glob("examples*.records"))) == num_examples - 6  # merging removes its inputs
    build_here(text, letters_tokenizer, tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in ("a", "b")} == built
    merged.remove(None)
    assert len(merged) == len(set(merged)) > 3
    assert any(name.startswith("merged-2-") for name in merged)
    assert not any("damaged" in message for message in messages)


def test_the_number_of_files_opened_grows_with_the_data_alone(letters_tokenizer, tmp_path, monkeypatch):
    """Twice the data gives twice as many runs; each of the twice as many files reads only a few of them."""
    monkeypatch.setattr(build_steps, "MOST_RUNS", 4)
    monkeypatch.setattr(build_steps, "_FEWEST_TOKENS", 40)
    monkeypatch.setattr(build_steps, "_TASKS", 1 << 20)
    opened = collections.Counter()
    read = shuffling._Run.__init__
    monkeypatch.setattr(shuffling._Run, "__init__", lambda self, path: (opened.update([size]), read(self, path))[-1])
    for size in (40, 80, 160):
        (tmp_path / "text.txt").write_text("abc def\nghi jkl\n\n" * size)
        names = [str(number) for number in range(size // 10)]
        build_here(str(tmp_path / "text.txt"), letters_tokenizer, tmp_path / str(size), names)
    assert opened[40] > 30
    assert opened[160] < 1.4 * 2 * opened[80] < 1.4**2 * 4 * opened[40]


def fail(*_, **__):
    raise OSError(28, "No space left on device")


def test_other_settings_start_again_and_tell_what_is_left(text, letters_tokenizer, tmp_path, monkeypatch, messages):
    folder = tmp_path / "out"
    monkeypatch.setattr(parallel_build, "publish", fail)
    with pytest.raises(OSError, match=f'cannot write in "{folder}": No space left on device; free some space there'):
        build_here(text, letters_tokenizer, folder, ["a"])
    monkeypatch.undo()
    [left] = [path for path in folder.iterdir() if path.suffix == ".unfinished"]
    build_here(text, letters_tokenizer, folder, ["a"], settings=PretrainingDataSettings(16, 4, dupe_factor=1))
    assert f"{left}: left by a build with other text or settings; delete it if not needed" in messages
    assert left.exists()


@pytest.mark.parametrize("error", [ValueError("no such runner"), ImportError("no such package"), RuntimeError("lost")])
def test_only_text_that_can_never_be_used_ends_with_finished_work_deleted(
    error, text, built, letters_tokenizer, tmp_path, monkeypatch
):
    folder = tmp_path / "out"

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(build_steps, "write_all", fail)
        with pytest.raises(type(error), match=str(error)):
            build_here(text, letters_tokenizer, folder)
    [work] = folder.iterdir()
    assert len(list(work.glob("examples-*.records"))) > 5
    monkeypatch.setattr(build_steps, "_draw_task", fail)  # all draw tasks are finished
    build_here(text, letters_tokenizer, folder)
    assert {name: (folder / name).read_bytes() for name in ("a", "b")} == built


def test_the_folder_of_another_process_is_left_alone(text, letters_tokenizer, tmp_path, monkeypatch):
    pytest.importorskip("fcntl")
    folder = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(stop_at("draw_all", patch)):
        build_here(text, letters_tokenizer, folder)
    [work] = folder.iterdir()
    for path in work.iterdir():
        path.unlink()
    with WorkFolder(str(work)):  # without results so far
        with pytest.raises(ValueError, match="another process is building the same files in .* now; wait for it, or"):
            build_here(text, letters_tokenizer, folder)
        assert os.listdir(work) == ["lock"]


def test_an_empty_note_does_not_cost_the_finished_work(text, built, letters_tokenizer, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(stop_at("write_all", patch)):
        build_here(text, letters_tokenizer, folder)
    [work] = folder.iterdir()
    [first, *others] = sorted(work.glob("examples-*.json"))
    first.write_bytes(b"")
    before = {path: path.stat().st_ino for path in others}
    with monkeypatch.context() as patch, pytest.raises(stop_at("write_all", patch)):
        build_here(text, letters_tokenizer, folder)
    assert {path: path.stat().st_ino for path in others} == before
    build_here(text, letters_tokenizer, folder)
    assert {name: (folder / name).read_bytes() for name in ("a", "b")} == built


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="asks /proc what is mapped")
def test_no_file_of_the_folder_is_mapped_when_it_is_removed(text, letters_tokenizer, tmp_path, monkeypatch):
    remove, mapped = parallel_build.paths.remove_dir, []

    def look_and_remove(path):
        mapped.append([line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if path in line])
        remove(path)

    monkeypatch.setattr(parallel_build.paths, "remove_dir", look_and_remove)
    build_here(text, letters_tokenizer, tmp_path / "out")
    assert mapped == [[]]


def test_a_folder_that_cannot_be_removed_does_not_spoil_a_finished_build(
    text, built, letters_tokenizer, tmp_path, monkeypatch, messages
):
    def fail(path):
        raise OSError(39, "Directory not empty")

    monkeypatch.setattr(parallel_build.paths, "remove_dir", fail)
    build_here(text, letters_tokenizer, tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in ("a", "b")} == built
    assert messages[-1].endswith("is not needed any longer, but cannot be removed: Directory not empty")


def test_a_text_that_cannot_be_read_any_longer_is_told_as_such(text, letters_tokenizer, tmp_path, monkeypatch):
    def fail(name, path, *_):
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr("bert_keras.data_prep.corpus.text_lines.open", fail, raising=False)
    with pytest.raises(OSError, match=f'^the input file "{text}" cannot be read: Input/output error$'):
        build_here(text, letters_tokenizer, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes_leave_nothing_behind(tmp_path, letters_tokenizer):
    (tmp_path / "blank").write_bytes(b"\n\n")
    with pytest.raises(ValueError, match="a generator .rng. is only for one worker; several workers use rand"):
        build(str(tmp_path / "blank"), letters_tokenizer, tmp_path / "new", ["a"], 2, rng=random.Random(0))
    (tmp_path / "odd").write_bytes(b"a\n\xff\n")
    for name, sentence in (
        ("blank", "no document was found in .*blank"),
        ("odd", "odd line 2: byte 0xff is not valid"),
    ):
        with pytest.raises(ValueError, match=sentence):
            build(
                str(tmp_path / name),
                letters_tokenizer,
                tmp_path / "new",
                ["a"],
                2,
                PretrainingDataSettings(16, 4, strict_utf8=True),
            )
    assert sorted(os.listdir(tmp_path)) == ["blank", "letters.vocab", "odd"]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_a_text_without_any_order_makes_no_examples_of_it(tmp_path, letters_tokenizer, num_workers):
    (tmp_path / "text").write_text("a\n\nb\n")
    settings = PretrainingDataSettings(16, 4, sentence_task="sentence_order")
    with pytest.raises(ValueError, match="the text gives no examples: its documents have only one token each"):
        build(str(tmp_path / "text"), letters_tokenizer, tmp_path / "new", ["a"], num_workers, settings)
    assert sorted(os.listdir(tmp_path)) == ["letters.vocab", "text"]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_compressed_records_are_read_and_counted(text, letters_tokenizer, tmp_path, num_workers):
    from bert_keras.training.input.pretraining_batches import evaluation_batches, training_batches

    build(text, letters_tokenizer, tmp_path, ["plain"], num_workers)
    build(text, letters_tokenizer, tmp_path, ["small.gz"], num_workers, is_gzip=True)
    assert (tmp_path / "small.gz").stat().st_size < (tmp_path / "plain").stat().st_size / 3
    plain, small = (open_records(str(tmp_path / name), 16, 4, 57) for name in ("plain", "small.gz"))
    both = open_records(f"{tmp_path}/plain,{tmp_path}/small.gz", 16, 4, 57)
    assert plain.num_examples == small.num_examples
    assert list(both.compression_types) == ["", "GZIP"]
    for make in (evaluation_batches, lambda records, size: training_batches(records, size, seed=3).take(9)):
        one, other = ([batch["input_ids"].numpy().tolist() for batch in make(file, 8)] for file in (plain, small))
        assert one == other
    assert sum(1 for _ in evaluation_batches(both, 1)) == 2 * plain.total_examples
    (tmp_path / "small.gz.json").unlink()
    assert open_records(str(tmp_path / "small.gz"), 16, 4, 57).num_examples == plain.num_examples
    content = (tmp_path / "small.gz").read_bytes()
    (tmp_path / "small.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="small.gz is not a whole TFRecord file: it ends or is damaged in example"):
        open_records(str(tmp_path / "small.gz"), 16, 4, 57)
