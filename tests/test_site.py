"""The pages of the documentation: links to files and the reference of the flags. `mkdocs build` checks the rest."""

import importlib
import inspect
import json
import pathlib
import re

import pytest
from guards import at_least

import bert_keras

ROOT = pathlib.Path(__file__).resolve().parents[1]


def load_hooks():
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = load_hooks()
PAGES = [*(ROOT / name for name in at_least(3, hooks.OUTSIDE)), *at_least(50, (ROOT / "docs").rglob("*.md"))]
PROGRAMS = at_least(10, (path.stem for path in (ROOT / "docs" / "reference" / "programs").glob("*.md")))


def prose(path):
    """Return the text of a page without its code."""
    text = re.sub(r"^ *(```+).*?^ *\1", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*\[[^`\n]*`", "", text)


def links(page):
    return re.findall(r"\]\(([^)\s]+)\)", prose(page))


def test_there_are_links():
    at_least(500, (link for page in PAGES for link in links(page)))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(page):
    """`mkdocs build --strict` checks links to pages and headings, but not those to code."""
    for target in links(page):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target.partition("#")[0]).exists(), f"{page.name} links to {target}"


def title(path):
    text = path.read_text(encoding="utf-8")
    text = "".join(json.loads(text)["cells"][0]["source"]) if path.suffix == ".ipynb" else text
    return re.search(r"^# (.*)$", text, re.MULTILINE)[1]


def test_a_page_has_one_name():
    """Lists of pages use its heading, and so does the menu, because it gives no other name."""
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    assert re.findall(r"- ([^:\n]+): \S+\.md$", menu, re.MULTILINE) == ["Home"]
    lists = [ROOT / "README.md", *(path for path in PAGES if path.name == "index.md")]
    for page in lists:
        rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith(("| ", "- ["))]
        for name, target in re.findall(r"(?:[|,-]) \[([^\]]+)\]\(([^)#]+\.(?:md|ipynb))\)", "\n".join(rows)):
            if "programs/" not in target:  # whose lists show the folder, too
                assert (name, target) == (title((page.parent / target).resolve()), target)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_begins_with_what_it_is_for(page):
    text = re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    first = text.split("\n", 1)[1].lstrip()
    assert page.stem == "index" or not first.startswith(("#", "|", "```", "- ", "**", "You need"))


def test_every_program_has_a_page():
    folders = (ROOT, ROOT / "data_prep", ROOT / "studies", ROOT / "tools")
    programs = {path.stem for folder in folders for path in folder.glob("*.py")} - {"setup", "__init__"}
    assert set(PROGRAMS) == programs


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_reference_explains_every_flag(name):
    program = hooks.load_program(name)
    values, page = program.define_flags(), hooks.program_page(program, name)
    for flag in at_least(2, values):
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `--{flag}`{{#{flag}}} ")]
        meaning = re.sub(r"^<.*?>: |;\n.*", "", values[flag].help)
        assert re.fullmatch(r"[A-Z\w].+\.", meaning), f"--{flag}: {meaning}"
        assert meaning.replace("|", "\\|") in row.replace("`", "")
    assert hooks.original_flags(name) <= set(values)


def test_no_guide_repeats_the_flags():
    for path in at_least(20, (ROOT / "docs" / "guides").glob("*.md")):
        assert "| flag | default |" not in path.read_text(encoding="utf-8"), path


def test_the_table_of_flags():
    page = hooks.program_page(hooks.load_program("run_squad"), "run_squad")
    assert "| `--max_seq_length`{#max_seq_length} † | integer | `384` |" in page
    assert "| `--learning_rate`{#learning_rate} † | numbers | `5e-05` |" in page
    assert "| `--answer_text`{#answer_text} | `release`, `offsets` | `release` | Text of an answer" in page
    assert "## This program" in page
    assert "## Devices" in page


def things_of_the_reference():
    """Return what the pages of the reference describe, by name."""
    found = {}
    for page in ("api", "network"):
        text = (ROOT / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
        for module, name in re.findall(r"^::: (\S+)\.(\w+)$", text, re.MULTILINE):
            found[name] = getattr(importlib.import_module(module), name)
    return found


def test_the_reference_has_every_public_name():
    names = set()
    for name, thing in things_of_the_reference().items():
        assert thing.__doc__, name
        if name in bert_keras.__all__:
            assert thing is getattr(bert_keras, name)
            names.add(name)
    assert names == set(bert_keras.__all__)


def test_docstrings_name_arguments_that_exist():
    things = things_of_the_reference()
    for name, thing in list(things.items()):
        if inspect.isclass(thing):
            methods = inspect.getmembers(thing, inspect.isroutine)
            things |= {f"{name}.{method}": value for method, value in methods if not method.startswith("_")}
    found = {}
    for name, thing in things.items():
        is_ours = (getattr(thing, "__module__", None) or "").startswith("bert_keras")
        section = re.search(r"^Args:\n((?: +.*\n|\n)+)", f"{inspect.getdoc(thing)}\n", re.MULTILINE)
        if section and is_ours:
            named = ", ".join(re.findall(r"^    ([*\w, ]+):", section[1], re.MULTILINE)).replace("*", "").split(", ")
            # `settings` are the other arguments.
            found[name] = {*named} - {*inspect.signature(thing).parameters, "settings"}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
    assert len(found) > 60


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("index.md", "[a](docs/guides/gpu.md#memory)", "[a](guides/gpu.md#memory)"),
        ("index.md", '<img src="docs/pictures/a.png">', '<img src="pictures/a.png">'),
        ("index.md", "[a](examples/paper.ipynb)", "[a](tutorials/paper.md)"),
        ("index.md", "[a](examples/README.md)", "[a](tutorials/index.md)"),
        (
            "contributing.md",
            "[a](README.md), [b](#c), [d](https://e.org)",
            "[a](index.md), [b](#c), [d](https://e.org)",
        ),
        ("guides/gpu.md", "[the loop](../../bert_keras/engine/loop.py)", "the loop"),
        (
            "guides/gpu.md",
            "[a](../../CHANGELOG.md) and `[b](../../c.py)`",
            "[a](../changelog.md) and `[b](../../c.py)`",
        ),
        ("guides/gpu.md", "![a](../pictures/a.png)", "![a](../pictures/a.png)"),
        ("guides/gpu.md", "```\n[a](b.py)\n```\n", "```\n[a](b.py)\n```\n"),
        ("explanation/model.md", "[draws](../pictures/draw.py)", "draws"),
    ],
)
def test_links_are_those_of_the_site(page, text, expected):
    assert hooks.rewrite_links(text, page) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n  - b\n    c\n- d", "- a\n    - b\n        c\n- d"),
        ("1. a\n   b\n\n   c\n\nd", "1. a\n    b\n\n    c\n\nd"),
        ("a:\n- b", "a:\n\n- b"),
        ("- a\n\n  ```\n  - b\n    c\n  ```\n\nd", "- a\n\n    ```\n    - b\n      c\n    ```\n\nd"),
        ("```\n- a\n  - b\n```", "```\n- a\n  - b\n```"),
        ("text\n    code", "text\n    code"),
        ("- a\n- b\n  c - d", "- a\n- b\n    c - d"),
    ],
)
def test_lists_are_indented_for_the_site(text, expected):
    assert hooks.indent_lists(text) == expected
