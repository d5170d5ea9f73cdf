"""Adds to the site what docs/ does not hold: the README, flags of the programs, and notebooks.

mkdocs calls the functions `on_...`. The pages are written for the repository's web page, too, so links are rewritten
and lists are indented as Python's Markdown needs them.
"""

import importlib
import logging
import pathlib
import posixpath
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Pages from outside docs/, and their places in the site.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

# Groups of flags that several programs share, by their titles in --help.
GROUPS = ("The run", "Files of the model", "Fine-tuning", "The teacher", "Devices")
_TYPES = {
    "bool": "true or false",
    "int": "integer",
    "float": "number",
    "comma separated list of strings": "list",
    "ints": "integers",
    "floats": "numbers",
}
_DAGGER = "†"

_FENCE = r"^(?P<fence> *(?:```+|~~~+)).*?^(?P=fence)[ ]*$"
_LINK = re.compile(
    rf"{_FENCE}|`[^`\n]*`|(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)|src=\"(?P<source>[^\"]+)\"",
    re.MULTILINE | re.DOTALL,
)


def on_files(files, config):
    """Adds the pages from outside docs/, and the notebooks of examples/ with their outputs."""
    from mkdocs.structure.files import File

    for source, page in OUTSIDE.items():
        # No list of pages on the home page, which is not in a part of the site.
        head = "---\nhide:\n  - navigation\n---\n" if page == "index.md" else ""
        files.append(File.generated(config, page, content=head + (ROOT / source).read_text(encoding="utf-8")))
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        for name, content in render_notebook(notebook).items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_content(html, page, config, files):
    """Marks names in code, and removes the dash that mkdocstrings puts before a returned value without a type.

    A name is in one line. On a phone, it may break after an underscore.
    """

    def name(match):
        return f'<code class="name">{match[1].replace("_", "_<wbr>")}</code>'

    html = re.sub(r"<code>(-?-\w[^<\s]{,40}|\w[\w.]{,40})</code>", name, html)
    return re.sub(r'(<li class="doc-section-item field-body">\s*)–', r"\1", html)


def on_page_markdown(markdown, page, config, files):
    """Fills in the flags of a program, and makes links and lists fit for the site."""
    path = page.file.src_uri
    name = pathlib.PurePosixPath(path).stem
    if path.startswith("reference/programs/"):
        markdown = f"{markdown.partition('<!--')[0]}{program_page(load_program(name), name)}"
    return indent_lists(rewrite_links(markdown, path))


def load_program(name):
    """Returns the module of a program, such as "build_vocab", or a training program, such as "run_squad"."""
    from bert_keras.programs.command import PROGRAMS

    if name in PROGRAMS:
        return PROGRAMS[name]
    for folder in ("bert_keras/commands", "data_prep", "studies"):
        if (ROOT / folder / f"{name}.py").exists():
            name = f"bert_keras.{folder.rpartition('/')[2]}.{name}"
            break
    for folder in (ROOT, ROOT / "tools"):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    handlers, level = logging.root.handlers[:], logging.root.level
    module = importlib.import_module(name)
    # Imports of libraries must not change the log of mkdocs.
    logging.root.handlers, logging.root.level = handlers, level
    return module


def program_page(program, name):
    """Returns Markdown: what a program says about itself, and a table of its flags for each group."""
    values = program.define_flags()
    originals = original_flags(name)
    groups = {title: [] for title in ("This program", *GROUPS)}
    for title, flags in values.flags_by_module_dict().items():
        groups[title if title in GROUPS else "This program"] += [flag for flag in flags if flag.name in values]
    groups = {title: flags for title, flags in groups.items() if flags}
    parts = [mark_flags(getattr(program, "usage", program.__doc__).strip())]
    if originals:
        parts.append(f"{_DAGGER} marks the flags of google-research/bert.")
    for title, flags in groups.items():
        parts.append(f"## {title}" if len(groups) > 1 else "## Flags")
        rows = [_row(flag, flag.name in originals) for flag in flags]
        table = "\n".join(["| flag | value | default | meaning |", "| --- | --- | --- | --- |", *rows])
        parts.append(f'<div class="flags" markdown>\n\n{table}\n\n</div>')
    return "\n\n".join(parts) + "\n"


def original_flags(name):
    """Returns the names of the flags that google-research/bert has, too, from the table of the page on migrating."""
    page = (ROOT / "docs" / "guides" / "migrating.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `(?:data_prep/)?{name.removesuffix('_beam')}\.py` \|(.*,.*)$", page, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", row[1])) if row else set()


def mark_flags(text):
    """Makes code of the flags that a text names, except in its commands."""
    lines = text.split("\n")
    return "\n".join(
        line if line.startswith("    ") else re.sub(r"(?<!`)--\w+(=[\w.]+\w)?", lambda match: f"`{match[0]}`", line)
        for line in lines
    )


def _row(flag, is_original):
    choices = getattr(flag.parser, "enum_values", ())
    kind = ", ".join(f"`{value}`" for value in choices) or _TYPES.get(flag.flag_type(), flag.flag_type())
    default = ",".join(map(str, flag.default)) if isinstance(flag.default, (list, tuple)) else flag.default
    default = "" if default in (None, "") else f"`{default}`"
    # absl writes the choices before the text; a | would end the cell.
    meaning = mark_flags(re.sub(r"^<.*?>: |;\n.*", "", flag.help)).replace("|", "\\|")
    mark = f" {_DAGGER}" if is_original else ""
    return f"| `--{flag.name}`{{#{flag.name}}}{mark} | {kind} | {default} | {meaning} |"


def render_notebook(path):
    """Returns the page and the pictures of a notebook: a dict of file names to str or bytes."""
    import nbconvert

    resources = {"unique_key": path.stem, "output_files_dir": f"{path.stem}_files"}
    body, resources = nbconvert.MarkdownExporter().from_filename(str(path), resources)
    # Commands in a notebook print as on a terminal: colours, and carriage returns at the ends of lines.
    return {f"{path.stem}.md": re.sub(r"\x1b\[[0-9;]*m|\r+(?=\n)", "", body), **resources["outputs"]}


def rewrite_links(markdown, page):
    """Makes the links of a page lead to the site's pages; a link to another file of the repository becomes its text."""
    sources = {target: source for source, target in OUTSIDE.items()}
    sources |= {f"tutorials/{path.stem}.md": f"examples/{path.name}" for path in (ROOT / "examples").glob("*.ipynb")}
    source = sources.get(page, f"docs/{page}")

    def rewrite(match):
        target = match["target"] or match["source"]
        if target is None or "://" in target or target.startswith(("#", "mailto:")):
            return match[0]
        path, mark, anchor = target.partition("#")
        place = place_in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), path)))
        if place is None:
            text = match["text"] or ""
            return f"`{text}`" if re.fullmatch(r"[\w./-]*(/|\.py)[\w.-]*", text) else text
        place = posixpath.relpath(place, posixpath.dirname(page) or ".")
        start, end = (number - match.start() for number in match.span("target" if match["target"] else "source"))
        return f"{match[0][:start]}{place}{mark}{anchor}{match[0][end:]}"

    return _LINK.sub(rewrite, markdown)


def place_in_site(path):
    """Returns the page of the site for a file of the repository, or None."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path in ("examples", "examples/README.md"):
        return "tutorials/index.md"
    if path.startswith("examples/") and not path.endswith(".py"):
        return path.replace("examples/", "tutorials/", 1).removesuffix(".ipynb") + ".md" * path.endswith(".ipynb")
    if path.startswith("docs/") and not path.endswith(".py"):
        return path.removeprefix("docs/")
    return None


def indent_lists(markdown):
    """Indents lists by four spaces a level, and puts an empty line before a list that follows a paragraph."""
    lines, columns, fence, previous = [], [], None, ""
    for line in markdown.split("\n"):
        text = line.lstrip(" ")
        column = len(line) - len(text)
        was_in_list = bool(columns)
        if fence is None and text:
            while columns and column < columns[-1]:
                columns.pop()
        elif fence and text.startswith(fence):
            fence = ""
        depth, rest = len(columns), column - (columns[-1] if columns else 0)
        lines.append(" " * (4 * depth + max(rest, 0)) + text if text else "")
        if fence == "":
            fence = None
        elif fence is None and (begin := re.match(r"```+|~~~+", text)):
            fence = begin[0]
        item = re.match(r"([-*+]|\d+\.) +", text) if fence is None and rest < 4 else None
        if item:
            if not was_in_list and previous:
                lines.insert(-1, "")
            columns.append(column + len(item[0]))
        previous = line
    return "\n".join(lines)
