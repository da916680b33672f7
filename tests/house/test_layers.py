"""Folders are layers: imports go one way, and heavy packages are met where they belong only."""
import json
import re
import subprocess
import sys

import pytest

from ascpipe.cli import main as verbs
from tests.support import tree

# modules of ascpipe/ itself
BASE = {"errors", "config", "names", "directories", "logs", "import_hints", "program_log", "ranks",
        "eviction_log", "admission"}

# layer -> layers it may import; BASE, LEAF and the layer itself always
MAY_IMPORT = {
    "mx_rec": {"ascpipe.tf"},
    "ascpipe.standins": {"ascpipe.tf"},
    "ascpipe.tf": {"ascpipe.tfops", "ascpipe.checkpoint", "ascpipe.control", "ascpipe.shm", "ascpipe.disk",
                   "ascpipe.data", "ascpipe.rows"},
    "ascpipe.tfops": {"ascpipe.control", "ascpipe.shm"},
    "ascpipe.__main__": {"ascpipe.cli"},
    "ascpipe.cli": {"ascpipe.daemon", "ascpipe.checkpoint", "ascpipe.control", "ascpipe.shm", "ascpipe.tfops",
                    "ascpipe.data", "ascpipe.rows", "ascpipe.report", "ascpipe.figures"},
    "ascpipe.report": {"ascpipe.figures", "ascpipe.control"},
    "ascpipe.figures": set(),
    "ascpipe.metrics": {"ascpipe.control", "ascpipe.dashboard"},
    "ascpipe.dashboard": {"ascpipe.control", "ascpipe.figures"},
    "ascpipe.daemon": {"ascpipe.control", "ascpipe.shm", "ascpipe.disk"},
    "ascpipe.workers": {"ascpipe.tables", "ascpipe.kernels", "ascpipe.shm", "ascpipe.control", "ascpipe.disk"},
    "ascpipe.disk": {"ascpipe.tfops"},  # which has the library
    "ascpipe.data": {"ascpipe.tfops"},  # which has the library
    "ascpipe.rows": {"ascpipe.checkpoint", "ascpipe.data"},
    "ascpipe.tables": {"ascpipe.kernels"},
    "ascpipe.checkpoint": {"ascpipe.shm", "ascpipe.tfops"},  # which has the library
    "ascpipe.shm": {"ascpipe.kernels"},
    "ascpipe.kernels": set(),
    "ascpipe.layout": set(),
    "ascpipe.control": set(),
    "ascpipe": set(),
}
LEAF = "ascpipe.layout"  # what processes agree on
MEETS_TENSORFLOW = {"mx_rec", "ascpipe.standins", "ascpipe.tf", "ascpipe.tfops"}
# A worker that loads a library of kernels needs no numba; kernels take what they need from the first of these.
MEETS_NUMBA = {"ascpipe.kernels." + name for name in ("compiler", "compiled", "linking", "lowering")}

HEAVY = re.compile(r"^(numba|llvmlite|tensorflow)(\.|$)")


def layer(module):
    """The layer of a module of ours; None for other people's."""
    parts = module.split(".")
    if parts[0] == "mx_rec":
        return "mx_rec"
    if parts[0] != "ascpipe":
        return None
    if len(parts) == 1 or parts[1] in BASE or ".".join(parts[:2]) not in MAY_IMPORT:
        return "ascpipe"
    return ".".join(parts[:2])


def product_imports():
    for path in tree.python_files(*tree.PRODUCT):
        module = tree.module_name(path)
        for imported, line in tree.imports(path).items():
            yield module, imported, "{}:{} imports {}".format(tree.name(path), line, imported)


def test_imports_go_one_way():
    wrong = []
    for module, imported, where in product_imports():
        mine, theirs = layer(module), layer(imported)
        if theirs not in (None, mine, "ascpipe", LEAF) and theirs not in MAY_IMPORT[mine]:
            wrong.append(where)
    assert not wrong, "\n".join(wrong)


def test_nothing_of_the_product_imports_tests_benches_or_examples():
    assert not [where for _, imported, where in product_imports()
                if imported.split(".")[0] in ("tests", "bench", "examples")]


def test_no_two_files_of_the_bench_need_each_other():
    files = {tree.module_name(path): path for path in tree.python_files("bench")}
    imports = {module: list(tree.imports(path)) for module, path in files.items()}
    needs = {module: {name for name in files if any(imported == name or imported.startswith(name + ".")
                                                    for imported in found)} - {module, "bench"}
             for module, found in imports.items()}
    while True:  # take away what needs nothing that is left
        done = {module for module in needs if not needs[module]}
        if not done:
            break
        needs = {module: needed - done for module, needed in needs.items() if module not in done}
    assert not needs


def test_mapped_packages_are_imported_by_their_full_names():
    assert not [where for _, imported, where in product_imports() if imported.split(".")[0] in ("workers", "tfops")]


def test_tensorflow_is_met_only_in_the_trainer_s_layers():
    assert not [where for module, imported, where in product_imports()
                if imported.split(".")[0] == "tensorflow" and layer(module) not in MEETS_TENSORFLOW]


def test_numba_is_met_only_where_kernels_are_compiled():
    assert not [where for module, imported, where in product_imports()
                if imported.split(".")[0] in ("numba", "llvmlite") and module not in MEETS_NUMBA]


def test_worker_processes_do_not_import_each_other():
    processes = {module for module in map(tree.module_name, tree.python_files("workers")) if module.endswith("_worker")}
    assert not [where for module, imported, where in product_imports()
                if module in processes and imported.rpartition(".")[0] in processes - {module}]


INCLUDES = {  # folder of tfops/src -> what the path of an include may begin with
    "core": ("core/",),
    "input": ("core/", "input/"),
    "peers": ("core/", "peers/"),
    "disk": ("core/", "disk/"),
    "rows": ("rows/",),
    "bridge": ("core/", "input/", "peers/", "bridge/", "tensorflow/", "absl/", "google/protobuf/"),
    "ops": ("core/", "input/", "peers/", "bridge/", "ops/", "tensorflow/"),
}


@pytest.mark.parametrize("folder", sorted(INCLUDES))
def test_cpp_folders_include_downwards_only(folder):
    wrong = []
    for path in sorted((tree.ROOT / "tfops/src" / folder).rglob("*")):
        if path.suffix not in (".h", ".cc"):
            continue
        for line in path.read_text().splitlines():
            found = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
            if found and ("/" in found.group(1) or '"' in line):
                target = found.group(1)
                if not target.startswith(INCLUDES[folder] + ("sys/", "linux/", "bits/")):
                    wrong.append("{} includes {}".format(tree.name(path), target))
    assert not wrong, "\n".join(wrong)


def stderr_of(program, *arguments):
    """What a Python program writes, which tells at its end which modules are loaded, in a process of its own."""
    script = ("import atexit, sys\n"
              "atexit.register(lambda: sys.stderr.write('LOADED ' + ' '.join(sys.modules) + '\\n'))\n" + program)
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=100)
    assert "Traceback" not in done.stderr, "exit {}: {}".format(done.returncode, done.stderr)
    return done.stderr


def heavy_modules(said):
    """Heavy modules that were loaded at the end of a program."""
    modules = [line for line in said.splitlines() if line.startswith("LOADED ")][0].split()[1:]
    assert "ascpipe" in modules
    return sorted({module.split(".")[0] for module in modules if HEAVY.match(module)})


def loaded_after(program):
    return heavy_modules(stderr_of(program))


def loaded_after_each(program, *arguments):
    """By what follows VERB in the output of a program, the heavy modules of that fork."""
    parts = stderr_of(program, *arguments).split("VERB ")[1:]
    return {part.partition("\n")[0]: heavy_modules(part) for part in parts}


def test_importing_ascpipe_loads_neither_numba_nor_tensorflow():
    assert loaded_after("import ascpipe") == []


def test_the_check_for_heavy_modules_sees_one():
    assert loaded_after("import ascpipe, numba") == ["llvmlite", "numba"]


VERBS = [["--help"], ["start", "--help"], ["list"], ["list", "--json"], ["stats", "-n", "1"], ["top"],
         ["logs"], ["logs", "--failed"], ["explain", "E122"], ["config", "show"], ["doctor"],
         ["--version", "--verbose"], ["clean", "--dry-run"], ["completion", "zsh"],
         ["plan", "--keys", "9", "--dim", "4", "--optimizer", "sgd"], ["status"], ["status", "--json"],
         ["status", "--name", "nobody"], ["stop"], ["stop", "--name", "nobody"], ["checkpoint", "--help"],
         ["checkpoint", "list", "/nothing"], ["run", "--help"], ["run", "/nothing.py"],
         ["run", "--ranks", "2", "--hosts", "a b", __file__], ["run", "--daemon", "nobody", __file__],
         ["checkpoint", "verify", "/nothing/model-1"], ["checkpoint", "show", "/nothing/model-1", "--json"],
         ["checkpoint", "export", "/nothing/model-1", "--table", "user", "--to", "/nothing/rows", "--format", "npy"],
         ["checkpoint", "from-tensorflow", "/nothing/model-1", "--variable", "v", "--table", "user", "--to",
          "/nothing/b-1"],
         ["checkpoint", "to-tensorflow", "/nothing/model-1", "--table", "user", "--variable", "v", "--to",
          "/nothing/b-1"],
         ["checkpoint", "import", "/nothing/rows.tsv", "--into", "/nothing/model-1", "--table", "user"],
         ["dashboard"], ["inspect", "user", "1"], ["hotkeys", "user", "--json"], ["trace", "start"],
         ["trace", "stop", "--all"], ["timeline", "--output", "/nothing"],
         ["timeline", "--all", "--output", "/nothing"], ["warmup", "--help"], ["report"],
         ["report", "--last", "--json"], ["tune"], ["library"], ["data", "--help"], ["data", "head", "/nothing"],
         ["data", "check", __file__],
         ["data", "index", "/nothing"]]


def test_every_verb_is_looked_at():
    looked_at = {arguments[0] for arguments in VERBS if not arguments[0].startswith("-")}
    assert looked_at == set(verbs.main.list_commands(None))


#: forks the process of each verb from one that has imported the command line and nothing else
VERBS_IN_FORKS = """
import json, os
from ascpipe.cli.main import main
for arguments in json.loads(sys.argv[1]):
    sys.stderr.write("VERB " + json.dumps(arguments) + "\\n")
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        sys.argv[1:] = arguments
        main()
        sys.exit()
    os.waitpid(child, 0)
"""


def test_no_verb_loads_numba_or_tensorflow():
    found = loaded_after_each(VERBS_IN_FORKS, json.dumps(VERBS))
    assert list(found) == list(map(json.dumps, VERBS))
    assert {arguments: modules for arguments, modules in found.items() if modules} == {}
