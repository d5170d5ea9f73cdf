"""The rules of the code: permitted imports, sizes of files and functions, and plain words."""

import ast
import collections
import functools
import pathlib
import re
import string
import subprocess
import sys

import pytest
from guards import at_least

import bert_keras
from bert_keras import prediction

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The levels of the folders; a file imports from lower levels and from its own folder.
FLOORS = {
    "storage": 0,
    "cli": 1,
    "evaluation": 1,
    "settings": 2,
    "modeling": 3,
    "data_prep": 4,
    "model_folder": 5,
    "runs": 5,
    "engine": 6,
    "prediction": 6,
    "tasks": 7,
    "serving": 8,
    "programs": 9,
    "export": 10,
    "commands": 11,
    "studies": 11,
}
TOP_LEVEL = ("modeling", "data_prep", "studies")
# The start of all training programs, and a text that a new Python process runs as a program.
PROGRAMS_BELOW = ("programs.command", "export.formats.converters")
ROOT_PROGRAMS = at_least(10, (path for path in ROOT.glob("*.py") if path.name != "setup.py"))
PROGRAMS = [
    *ROOT_PROGRAMS,
    *at_least(2, (ROOT / "tools").glob("*.py")),
    ROOT / "studies" / "run_study.py",
    *(
        ROOT / "data_prep" / f"{name}.py"
        for name in ("build_vocab", "create_pretraining_data", "create_pretraining_data_beam")
    ),
]
# Their code, which is not imported by anything else.
COMMANDS = at_least(8, (ROOT / "bert_keras" / "commands").glob("[a-z]*.py"))
# These start without TensorFlow, Keras and NumPy.
LIGHT = (
    *("storage.paths", "storage.writing", "storage.checks", "storage.tokenizer.vocabulary", "cli.progress"),
    *("data_prep.text.characters", "engine.distribution.tpu_step_time"),
    *("data_prep.text.splitting", "data_prep.text.tokenization", "data_prep.text.vocabulary_files"),
)
# Building blocks for programmers: a wrong argument is a bug of the caller, and not a mistake of the user.
BUILDING_BLOCKS = (
    *(
        "evaluation.classification",
        "tasks",
        "tasks.tagging.entities",
        "tasks.benchmarks.submission",
        "evaluation.ranking",
        "evaluation.tables",
    ),
    *("tasks.question_answering.squad_answers", "data_prep.text.graph.layer"),
    *(
        "data_prep.text.model_inputs",
        "data_prep.text.splitting",
        "data_prep.text.tokenization",
        "storage.tokenizer.vocabulary",
    ),
    *("modeling.base", "modeling.checkpoints.loading", "modeling.lora", "modeling.losses", "modeling.optimization"),
)
# Help texts of flags, and the commands of the demo and of a model card.
WITH_COMMAND_LINES = (
    "programs.model_check.report",
    *("programs.command", "programs.demo", "programs.trial"),
    *("tasks.distillation.recipe", "tasks.reports.commands"),
    "export.card.usage_examples",
)
MAX_FILES_OF_A_FOLDER = 13
MAX_LINES_OF_A_FUNCTION = 70
MAX_LINES_OF_A_PROGRAM = 150
# Words that make English hard to read, and how many of them 1,000 words of text and code may have.
STILTED = (
    *(r"anew", r"beside", r"in silence", r"know(s|ing) nothing", r"says? so", r"pass(es|ed) over"),
    *(
        r"(stands?|lies?) (in|at|there|beside|for)",
        r"(goes|go|went) on",
        r"(?<!there )(is|are) no (?!longer|more|less|one)\w+",
    ),
    *(r"(is|are|was|were|be) (told|said|asked|looked at|begun)", r"of (its|their|one's) own", r"(is|are) owed"),
)
MAX_STILTED = 0.3


def folder_of(name):
    """Return the folder of a package: in bert_keras/, or at the top level, where links of bert_keras/ lead."""
    return ROOT / name if name in TOP_LEVEL else ROOT / "bert_keras" / name


@functools.cache
def sources():
    """Return the text of each product file by its path."""
    files = {path for folder in FLOORS for path in at_least(3, folder_of(folder).rglob("*.py"))}
    files |= {*PROGRAMS, *at_least(1, (ROOT / "bert_keras").glob("*.py"))}
    return {path: path.read_text(encoding="utf-8") for path in sorted(files)}


@functools.cache
def modules():
    """Return the text of each module by its name below bert_keras; programs are not modules."""
    paths = [path for path in sources() if path not in (*PROGRAMS, *COMMANDS) and path.parent.name != "bert_keras"]
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths}
    return {name.removeprefix("bert_keras.").removesuffix(".__init__"): sources()[path] for path, name in names.items()}


@functools.cache
def imports():
    """Return the names of the project's modules that each module imports, anywhere in its file."""
    found = {}
    for module, text in modules().items():
        names = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
        names = {name.removeprefix("bert_keras.") for name in names if name.startswith(("bert_keras.", "studies."))}
        found[module] = names & set(modules()) - {module}
    at_least(500, (module for names in found.values() for module in names))
    return found


def test_files_import_from_lower_floors_or_from_their_own_folder():
    def is_allowed(folder, other):
        return folder == other or (FLOORS[other] < FLOORS[folder] and {folder, other} != {"modeling", "data_prep"})

    pairs = [(module, imported) for module, names in imports().items() for imported in names]
    assert [pair for pair in pairs if not is_allowed(*(module.split(".")[0] for module in pair))] == []


def test_no_two_folders_import_each_other():
    """At no depth: an import is an arrow between the two folders in which the paths of the two files part."""
    left = collections.defaultdict(set)
    for module, names in imports().items():
        for imported in names:
            pairs = list(zip(folders_of(module), folders_of(imported), strict=False))
            parted = [place for place, (one, other) in enumerate(pairs) if one != other]
            if parted:
                one, other = (".".join(path[: parted[0] + 1]) for path in zip(*pairs, strict=True))
                left[one].add(other)
                left[other] |= set()
    at_least(30, left)
    while free := {folder for folder, imported in left.items() if not imported}:
        left = {folder: imported - free for folder, imported in left.items() if folder not in free}
    assert left == {}


def folders_of(module):
    """Return the names of the folders of a module, the highest first."""
    names = module.split(".")
    return names if (folder_of(names[0]) / pathlib.Path(*names[1:])).is_dir() else names[:-1]


def test_no_two_files_import_each_other():
    left = imports()
    while free := {module for module, imported in left.items() if not imported}:
        left = {module: imported - free for module, imported in left.items() if module not in free}
    assert left == {}


def test_everything_is_imported_as_a_part_of_bert_keras():
    """Importing a folder by its bare name would load it a second time; `studies` has no other name."""
    names = [rf"bert_keras\.{name}" if name == "studies" else name for name in FLOORS]
    pattern = re.compile(rf"^\s*(from|import) ({'|'.join(names)})\b", re.MULTILINE)
    files = [*at_least(5, (ROOT / "benchmarks").glob("*.py")), *at_least(150, (ROOT / "tests").rglob("*.py"))]
    for path in [*files, *sources(), *at_least(50, (ROOT / "docs").rglob("*.md")), ROOT / "README.md"]:
        assert not pattern.search(path.read_text(encoding="utf-8")), path


def test_only_programs_and_cli_read_the_command_line_and_the_environment():
    for module, text in modules().items():
        if module not in PROGRAMS_BELOW and not module.startswith("cli."):
            assert not re.search(r"sys\.argv|os\.environ|os\.getenv|flags\.FLAGS|FLAGS\.", text), module


def test_text_below_the_programs_does_not_spell_flags():
    """Callers from Python and over HTTP have no flags: a message has the name of a setting in braces, see `Mistake`.

    A command line in a message, such as "predict.py --task=score", is a command for everyone.
    """
    command, found = re.compile(r"\w+\.py [^;]*|, --"), []
    for module, text in modules().items():
        if module.split(".")[0] in ("cli", "studies") or module in WITH_COMMAND_LINES:
            continue
        tree = ast.parse(text)
        skipped = {id(node) for call in _calls(tree, "DEFINE") for node in ast.walk(call)}
        skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        skipped |= {id(node.value) for node in assigned if ast.unparse(node.targets[0]) == "usage"}  # of a program
        for node in ast.walk(tree):
            if id(node) in skipped or not isinstance(node, ast.JoinedStr | ast.Constant):
                continue
            skipped |= {id(part) for part in ast.walk(node)}
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            whole = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
            if re.search(r"--[a-z{]", command.sub("", whole)):
                found.append((module, node.lineno))
    assert found == []


def _calls(tree, name):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and name in ast.unparse(node.func)]


def test_only_building_blocks_raise_a_plain_value_error():
    """The edge of a program shows a `Mistake` as one sentence, and every other ValueError as a bug."""
    assert sorted(module for module, text in modules().items() if "raise ValueError" in text) == sorted(BUILDING_BLOCKS)
    assert [path for path in (*PROGRAMS, *COMMANDS) if "raise ValueError" in sources()[path]] == []


def test_messages_name_settings_that_exist_and_have_all_their_values():
    """The first argument is a literal: text of the user in it would be taken for names of settings."""
    known, found = {"help", "helpfull", "config_file"}, []
    for text in sources().values():
        known.update(re.findall(r'"(\w+)"', text))  # a name of a flag or of a setting
        known.update(re.findall(r"^ {4,8}(\w+): ", text, re.MULTILINE))  # an argument or a field
    for module, text in modules().items():
        for call in _calls(ast.parse(text), ""):
            if (
                ast.unparse(call.func) not in ("Mistake", "MissingFile", "Message", "UnusableTextError")
                or not call.args
            ):
                continue
            template, values = call.args[0], call.args[1:]
            if any(isinstance(node, (ast.JoinedStr, ast.Call)) for node in ast.walk(template)):
                literal = ast.unparse(template).startswith(("' '.join", "'{output_dir}={} holds"))  # joins of "{}"
                assert literal, (module, call.lineno)
            if not isinstance(template, ast.Constant):
                continue
            fields = [field for _, field, _, _ in string.Formatter().parse(template.value) if field is not None]
            names = {field for field in fields if field and not field.isdecimal()}
            assert names <= known, (module, call.lineno, names - known)
            if len(values) == 1 and isinstance(values[0], ast.Starred) and isinstance(values[0].value, ast.Tuple):
                values = values[0].value.elts
            if not any(isinstance(value, ast.Starred) for value in values):
                places = fields.count("") or 1 + max((int(field) for field in fields if field.isdecimal()), default=-1)
                assert places == len(values), (module, call.lineno)
            found.append(call)
    assert len(found) >= 250


@pytest.mark.parametrize("program", ["programs.squad", "programs.ner", "programs.classifier", "programs.reranker"])
def test_fine_tuning_does_not_import_the_builder(program):
    reached, new = set(), {program}
    while new:
        reached |= new
        new = {imported for module in new for imported in imports()[module]} - reached
    assert [module for module in sorted(reached) if module.startswith("data_prep.pretraining")] == []


@pytest.mark.parametrize(("program", "most"), [("programs/command", 75), ("commands/export_model", 24)])
def test_a_program_loads_few_files_to_show_its_help(program, most):
    """They are those that imports outside functions reach, and their packages."""
    loaded, texts = set(), [sources()[ROOT / "bert_keras" / f"{program}.py"]]
    while texts:
        nodes = [node for text in texts for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)]
        names = {f"{node.module}.{alias.name}".removeprefix("bert_keras.") for node in nodes for alias in node.names}
        found = {".".join(name.split(".")[:end]) for name in names for end in range(1, 2 + name.count("."))}
        new = found & set(modules()) - loaded
        loaded, texts = loaded | new, [modules()[name] for name in new]
    assert 15 < len(loaded) <= most, sorted(loaded)


@pytest.mark.parametrize("package", [bert_keras, prediction])
def test_a_package_has_the_names_that_its_stub_gives_to_type_checkers(package):
    stub = ast.parse(pathlib.Path(package.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body[1:] if isinstance(node, ast.ImportFrom)]
    others = [ast.unparse(node) for node in stub.body[1:] if node not in imports]
    assert len(imports) > 20
    assert others in ([], ["__version__: str"])
    # Type checkers see a name of a stub only if it has an alias.
    assert {alias.asname for node in imports for alias in node.names} == {*package.__all__} <= {*dir(package)}
    assert len(package.__all__) <= 48
    for node in imports:
        for alias in node.names:
            thing = getattr(package, alias.name)
            assert (thing.__name__, alias.asname) == (alias.name, alias.name)
            assert f"{thing.__module__}.".startswith(f"{node.module}.")
    with pytest.raises(AttributeError, match=f"^module '{package.__name__}' has no attribute 'Predict'$"):
        package.Predict  # noqa: B018


def test_names_are_not_parts_of_sentences():
    """Such as `of_row` or `shown`: the name of a value says what it is."""
    found, count = [], 0
    for path, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            is_stored = isinstance(getattr(node, "ctx", None), ast.Store)
            name = getattr(node, "id", getattr(node, "attr", None)) if is_stored else getattr(node, "name", None)
            name = node.arg if isinstance(node, ast.arg) else name
            count += isinstance(name, str)
            if isinstance(name, str) and re.fullmatch(r"_*of_\w+|told|shown|asked|each", name, re.IGNORECASE):
                found.append((str(path.relative_to(ROOT)), node.lineno, name))
    assert count > 10_000
    assert found == []


def test_no_private_names_of_keras_or_tensorflow():
    for module, text in modules().items():
        assert not re.search(r"keras\.src|tensorflow\.python|tf\.__internal__|(?:\btf|keras|ops)\._\w", text), module


def tensorflow_imports(tree):
    """Return the statements in a file or function that import TensorFlow, or a package that needs it."""
    found = set()
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module]
        if any(name.startswith("tensorflow") for name in names):
            found.add(node)
    return found


def functions_in(tree):
    return [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def test_the_network_needs_tensorflow_only_in_functions_for_files_random_bits_argmax_replicas_and_onednn():
    need_it = set()
    for module in (module for module in modules() if module.split(".")[0] == "modeling"):
        tree = ast.parse(modules()[module])
        if found := tensorflow_imports(tree):
            assert found == set().union(*map(tensorflow_imports, functions_in(tree))), module
            need_it.add(module.split(".")[-1])
    assert need_it == {"tensorflow_format", "dropout", "fused", "losses", "optimization"}


def test_the_package_tokenization_and_storage_need_neither_tensorflow_nor_keras():
    code = "".join(
        f"import bert_keras.{module}; assert not {{'tensorflow', 'keras', 'numpy'}} & set(sys.modules), '{module}'\n"
        for module in LIGHT
    )
    # A program starts TensorFlow after its demo is prepared.
    code += "import bert_keras.programs.demo; assert not {'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", f"import sys\n{code}"], cwd=ROOT, check=True)


def test_folders_have_few_files():
    """The top level and commands/ have the programs that users run."""
    counted = [path for path in sources() if path.name != "__init__.py" and path not in (*ROOT_PROGRAMS, *COMMANDS)]
    files = collections.Counter(path.parent.relative_to(ROOT) for path in counted)
    assert {str(folder): number for folder, number in files.items() if number > MAX_FILES_OF_A_FOLDER} == {}


def test_functions_are_short():
    functions = {
        f"{path.relative_to(ROOT)} {node.name}": node.end_lineno - node.lineno + 1
        for path, text in sources().items()
        for node in functions_in(ast.parse(text))
    }
    at_least(1000, functions)
    assert {name: number for name, number in functions.items() if number > MAX_LINES_OF_A_FUNCTION} == {}


def is_typed(function):
    args = function.args
    arguments = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    arguments = [each for each in arguments if each and each.arg not in ("self", "cls")]
    has_result = function.returns is not None or (function.name == "__init__" and arguments)
    return bool(has_result) and all(each.annotation for each in arguments)


def test_every_function_has_types_for_its_arguments_and_its_result():
    functions = {
        f"{path.relative_to(ROOT)} {node.name}": is_typed(node)
        for path, text in sources().items()
        if path.relative_to(ROOT).parts[0] not in ("studies", "tools")
        for node in functions_in(ast.parse(text))
    }
    at_least(1000, functions)
    assert [name for name, has_types in functions.items() if not has_types] == []


def test_programs_are_short():
    names = {path.name for path in ROOT_PROGRAMS}
    programs = {path.name: sources()[path].count("\n") for path in COMMANDS if path.name in names}
    assert {name: number for name, number in programs.items() if number > MAX_LINES_OF_A_PROGRAM} == {}


def test_the_english_is_plain():
    folders = [*TOP_LEVEL, "bert_keras", "benchmarks", "docs", "examples", "tests", "tools"]
    found = [(1, (ROOT / name).rglob("*")) for name in folders] + [(10, ROOT.iterdir())]
    paths = [
        path
        for number, files in found
        for path in at_least(number, (file for file in files if file.suffix in (".py", ".md")))
    ]
    texts = {path: path.read_text(encoding="utf-8") for path in paths if path != pathlib.Path(__file__)}
    pattern = re.compile(rf"\b(?:{'|'.join(STILTED)})\b", re.IGNORECASE)
    found = {path: [match[0] for match in pattern.finditer(text)] for path, text in texts.items()}
    num_words = sum(len(text.split()) for text in texts.values())
    worst = sorted(found.items(), key=lambda item: -len(item[1]))[:5]
    assert 1000 * sum(map(len, found.values())) / num_words <= MAX_STILTED, worst
