"""Reads the fenced blocks of the pages: commands, Python, outputs, and the marks above them.

A mark is a comment that readers do not see, on its own lines directly above a block:

    <!-- needs: a TPU -->                        no test runs this block, because test machines lack this
    <!-- file: questions.json -->                the block is the content of a file that later commands use
    <!-- recorded ... -->                        docs/record.py writes this output, see there
    <!-- not recorded: why, and how it was made -->
    <!-- shows: the format of a line -->         a block that is neither a command nor the output of one
    <!-- first: python convert_checkpoint.py ... -->

`first` needs no block below it. It is a command that tests and recorder run at this place, for example the training of
a model that another page describes.
"""

import dataclasses
import pathlib
import re
import shlex

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHELL = ("", "bash", "sh", "shell", "console")
PYTHON = ("python", "py")
MARKS = ("needs", "file", "recorded", "not recorded", "shows", "first")
# The first word of a block of commands.
PROGRAMS = (
    *(".", ".ci/run", "cat", "cd", "cp", "curl", "docker", "export", "git", "ls", "mkdir", "nvidia-smi", "pip"),
    *("pytest", "python", "python3", "ruff", "source", "tar", "tensorboard", "unzip", "wget", "wsl", "xcode-select"),
)
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^ *(?P=ticks) *$", re.M | re.S)
_COMMENT = re.compile(r"<!--(.*?)-->", re.S)
_MARK = re.compile(rf"\s*({'|'.join(sorted(MARKS, reverse=True))})\b:?(.*)", re.S)


@dataclasses.dataclass
class Block:
    """A fenced block, or the command of a mark `first`.

    Attributes:
        page: path below the root of the project, as a str.
        line: number of the line with the opening fence, from 1.
        language: the first word after the fence.
        text: the content, without the indentation of the fence.
        marks: dict of the name of a mark to its text.
        span: where the content is in the text of the page; None for a mark `first`.
        indent: the indentation of the fence.
    """

    page: str
    line: int
    language: str
    text: str
    marks: dict
    span: tuple | None = None
    indent: str = ""

    @property
    def kind(self):
        """Returns `commands`, `python`, `file`, `output` or `other`."""
        if "file" in self.marks:
            return "file"
        if self.language in PYTHON:
            return "python"
        if "first" in self.marks or (self.language in SHELL and first_word(self.text) in PROGRAMS):
            return "commands"
        return "output" if self.language in (*SHELL, "text") else "other"

    @property
    def place(self):
        return f"{self.page} line {self.line}"


def pages():
    """Returns the paths of all pages below the root, as str."""
    names = ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "examples/one_day/README.md")
    paths = [*(ROOT / name for name in names), *sorted((ROOT / "docs").rglob("*.md"))]
    return [path.relative_to(ROOT).as_posix() for path in paths]


def blocks_of(page):
    """Returns the blocks of a page, in order."""
    return blocks_in((ROOT / page).read_text(encoding="utf-8"), page)


def blocks_in(text, page):
    """Returns the blocks in the text of a page, in order."""
    fences = list(_FENCE.finditer(text))
    found = {}
    for fence in fences:
        content = fence["text"]
        if fence["indent"]:
            content = re.sub(f"^ {{1,{len(fence['indent'])}}}", "", content, flags=re.M)
        language = (fence["info"].split() or [""])[0].lower()
        line = text.count("\n", 0, fence.start()) + 1
        marks = _marks_above(text[: fence.start()])
        found[fence.start()] = Block(page, line, language, content, marks, fence.span("text"), fence["indent"])
    for comment in _COMMENT.finditer(text):
        mark = _MARK.fullmatch(comment[1])
        if mark and mark[1] == "first" and not any(f.start() < comment.start() < f.end() for f in fences):
            line = text.count("\n", 0, comment.start()) + 1
            found[comment.start()] = Block(page, line, "bash", mark[2].strip() + "\n", {"first": ""})
    return [found[start] for start in sorted(found)]


def logical_lines(text):
    """Returns the lines of a block of commands, without comments; continued lines and open quotes are joined."""
    lines, pending = [], ""
    for line in text.replace("\\\n", " ").splitlines():
        pending += line
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # an open quote
            pending += "\n"
            continue
        if words:
            lines.append(pending.strip())
        pending = ""
    return lines


def scripts_of(text):
    """Returns the parts of a block that a shell can run one by one: its lines, or all of it if they share variables."""
    lines = logical_lines(text)
    if "<<" in text or any(line.endswith("&") or line.startswith("export ") for line in lines):
        return [text]
    return lines


def first_word(text):
    """Returns the program that a block of commands begins with, without assignments before it."""
    for line in logical_lines(text)[:1]:
        for word in line.split():
            if not re.match(r"[A-Z_][A-Z0-9_]*=", word):
                return word
    return ""


def _marks_above(text):
    """Returns the marks in the comments that end a text."""
    marks = {}
    while text.rstrip().endswith("-->"):
        start = text.rindex("<!--")
        mark = _MARK.fullmatch(text[start + 4 : text.rindex("-->")])
        if mark and mark[1] != "first":
            marks[mark[1]] = mark[2].strip()
        text = text[:start]
    return marks
