"""Whatever others may rely on (tests/house/public_api.txt) has a place in the reference, and the site has every page.

The page of settings is made of ascpipe/defaults.toml, that of paths of ``mx_rec`` of the modules themselves, and the
list of decisions of their titles. After a change::

    python -m tests.house.test_reference_pages
"""
import collections
import importlib
import logging
import re
import sys
import warnings

import click
import pytest
import tomli

from ascpipe.cli.explain import with_links
from ascpipe.metrics import figures
from tests.support import tree

DOCS = tree.ROOT / "docs"
API = (tree.ROOT / "tests/house/public_api.txt").read_text().splitlines()


# ---- pages that are made ----------------------------------------------------------------------------------

def settings_page():
    """Each setting with its default and what it means."""
    text = (tree.ROOT / "ascpipe/defaults.toml").read_text()
    lines = ["# Settings", "",
             "This page is generated from `ascpipe/defaults.toml`. A setting has the value of the first source that "
             "contains the setting:",
             "",
             "1. the command line", "2. the environment variable: `ASCPIPE_` and the setting's name in capitals",
             "3. the file in `$ASCPIPE_CONFIG`", "4. the defaults below", "",
             "`ascpipe config show --origin` shows the origin of each value. Numbers of bytes may have a unit: "
             "`128MiB`, `1GB`. "
             "The default of a setting marked *Expert* is suitable for nearly every program. Measure before you change "
             "such a setting. The private daemon of a rank adds its local rank to ports and to the name of the metrics "
             "file (`figures-0.prom`). See [operations](../how-to/operations.md#settings).", ""]
    for comment, name, value in re.findall(r"^((?:# .+\n)+)(\w+) = (.+)$", text, re.M):
        meaning = " ".join(line[2:] for line in comment.splitlines())
        values = re.search(r" The range is (\S+ to .+)\.$", meaning)
        allowed = ", range {}".format(values.group(1)) if values else ""
        lines += ["## `{}`".format(name), "", "Default: `{}`{}.".format(value, allowed), ""]
        lines += [with_links(meaning[:values.start()] if values else meaning), ""]
    return "\n".join(lines).rstrip() + "\n"


def paths_page():
    """Each name of ``mx_rec`` with the name of ``ascpipe.tf`` that is the same object, or its sentence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of TensorFlow, which is older than some
        import tensorflow  # noqa: F401
    import ascpipe.tf as asc
    plain = {id(getattr(asc, name)): name for name in asc.__all__}
    lines = ["# Paths of `mx_rec`", "",
             "Programs of Rec SDK import these names. Each name is followed by a summary, or by the equivalent "
             "name of `ascpipe.tf`. "
             "See [from-mx_rec.md](../how-to/from-mx_rec.md).", ""]
    module, before, equal = None, {}, []
    for here, _, name in sorted(line.rpartition(".") for line in API if line.startswith("mx_rec.")):
        if here != module:
            lines += constants(equal)
            module, equal = here, []
            lines += ([""] if lines[-1] else []) + ["## `{}`".format(module), ""]
        thing = getattr(importlib.import_module(module), name)
        if thing == name:
            equal.append(name)
        else:
            is_described = id(thing) in before and id(thing) not in plain
            text = before[id(thing)] if is_described else equivalent_or_summary(thing, plain)
            lines.append("- `{}`: {}".format(name, text))
            if not isinstance(thing, str):
                before.setdefault(id(thing), "`{}.{}`".format(here, name))
    return "\n".join(lines + constants(equal)) + "\n"


def constants(names):
    """An item for constants whose values are their names."""
    return ["- string constants with their names as values: " + ", ".join(map("`{}`".format, names))] if names else []


def equivalent_or_summary(thing, plain):
    """The name of ``ascpipe.tf`` for the same object, the value of a constant, or the summary of a docstring."""
    if id(thing) in plain:
        return "`ascpipe.tf.{}`".format(plain[id(thing)])
    if isinstance(thing, str):
        return "`\"{}\"`".format(thing)
    if isinstance(thing, logging.Logger):
        return "Logger of the program."
    summary = (thing.__doc__ or "").strip().split("\n\n")[0]
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(summary.split()))


def options_page():
    """Each verb of the command line with its options; options of several verbs come first."""
    verbs = list(verbs_of(importlib.import_module("ascpipe.cli.main").main, "ascpipe"))
    counts = collections.Counter(described(parameter) for _, command in verbs for parameter in command.params)
    common = sorted(line for line, count in counts.items() if count > 1 and line.startswith("- `-"))
    lines = ["# Options of the command line", "",
             "This page is generated from the help texts, `ascpipe COMMAND -h`. "
             "[command_line.md](command_line.md) describes the commands and their output. Commands that print data "
             "accept `--json`.", "",
             "Common options:", "", *common, ""]
    for words, command in verbs:
        shared = [parameter.opts[-1] for parameter in command.params
                  if described(parameter) in common and parameter.opts[-1] != "--json"]
        lines += ["## `{}`".format(words), "", " ".join((command.help or "").split("\n\n")[0].split()), ""]
        arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
        lines += ["- " + ", ".join(described(each)[2:] for each in arguments)] if arguments else []
        lines += [described(parameter) for parameter in command.params
                  if parameter not in arguments and described(parameter) not in common]
        lines += ["- common: " + ", ".join("`{}`".format(name) for name in shared)] if shared else []
        lines += [""] if command.params else []
    return "\n".join(lines).rstrip() + "\n"


def described(parameter):
    """An item of a list: the names of an option or argument, and its help."""
    named = parameter.opts if parameter.param_type_name == "option" else [parameter.human_readable_name]
    text = " ".join((getattr(parameter, "help", None) or "").split())
    return "- " + ", ".join("`{}`".format(name) for name in named) + (": " + text if text else "")


def verbs_of(group, words):
    context = click.Context(group)
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        if isinstance(command, click.Group):
            yield from verbs_of(command, words + " " + verb)
        else:
            yield words + " " + verb, command


def decisions_page():
    """The titles of all decisions."""
    lines = ["# Decisions", "", "Each page records one decision. A later decision may change an earlier one.", ""]
    for path in sorted((DOCS / "internals/adr").glob("0*.md")):
        title = path.read_text().splitlines()[0].lstrip("# ")
        lines.append("- [{}]({})".format(title.replace("`", ""), path.name))
    return "\n".join(lines) + "\n"


MADE = {"reference/settings.md": settings_page, "reference/mx_rec.md": paths_page,
        "reference/options.md": options_page, "internals/adr/README.md": decisions_page}


def made(name):
    """Return the text of a generated page."""
    return wrapped(MADE[name](), 100)


def wrapped(text, width):
    """Break lines at ``width`` columns; later lines of a list item are indented."""
    lines = []
    for line in text.splitlines():
        indent = "  " if line.startswith(("-", " ")) else ""
        while len(line) > width:
            cut = line.rfind(" ", 0, width + 1)
            lines.append(line[:cut])
            line = indent + line[cut + 1:]
        lines.append(line)
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


@pytest.mark.parametrize("name", MADE)
def test_a_page_that_is_made_is_as_it_would_be_made_now(name):
    assert (DOCS / name).read_text() == made(name), "python -m tests.house.test_reference_pages"


# ---- what the reference has -------------------------------------------------------------------------------

def test_every_public_name_of_ascpipe_tf_has_its_place_and_no_other_has():
    placed = re.findall(r"^::: (ascpipe\.tf\.[\w.]+)$", (DOCS / "reference/ascpipe_tf.md").read_text(), re.M)
    public = {name for name in API if name.startswith("ascpipe.tf.")}
    public -= {"ascpipe.tf.data", "ascpipe.tf.feature_column", "ascpipe.tf.optimizers"}
    assert sorted(placed) == sorted(public)


def test_every_name_of_ascpipe_tf_that_a_document_or_an_example_uses_is_public():
    public = {name for name in API if name.startswith("ascpipe.tf.")}
    texts = [*tree.ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(tree.ROOT / "examples").glob("*.*")]
    used = {(path.name, "ascpipe.tf." + name) for path in texts
            for name in re.findall(r"\basc\.((?:optimizers\.)?[A-Za-z]\w+)(?=\()", path.read_text())}
    assert len(used) > 50 and not [(where, name) for where, name in sorted(used) if name not in public]


def test_every_verb_has_its_place_in_the_page_of_the_command_line():
    page, options = ((DOCS / "reference" / name).read_text() for name in ("command_line.md", "options.md"))
    headings = re.findall(r"^## `(.+)`$", options, re.M)
    for line in (line for line in API if line.startswith("ascpipe ")):
        assert re.search(r"`{}\b".format(line.split()[1]), page), line
        assert [heading for heading in headings if (line + " ").startswith(heading + " ")], line
        assert all("`{}`".format(word) in options for word in line.split() if word.startswith("-")), line


def test_every_setting_and_every_error_and_metric_has_its_place():
    settings = (DOCS / "reference/settings.md").read_text()
    for name in tomli.loads((tree.ROOT / "ascpipe/defaults.toml").read_text()):
        assert "## `{}`".format(name) in settings
    errors = (DOCS / "reference/errors.md").read_text()
    for code in {line.split()[1] for line in API if line.startswith("error ")} - {"E100"}:
        assert "- **{}**".format(code) in errors, code
    assert "docs/reference/metrics.md" in figures.__doc__  # tests/house/test_metrics_docs.py compares them


# ---- the site ---------------------------------------------------------------------------------------------

def test_the_site_leads_to_every_document_and_loads_nothing_from_elsewhere():
    text = (tree.ROOT / "mkdocs.yml").read_text()
    led = set(re.findall(r": (\S+\.md)$", text, re.M))
    documents = {tree.name(path) for path in DOCS.rglob("*.md")}
    single = {name for name in documents if not re.match(r"docs/internals/adr/0", name)}
    assert single - led == set()
    assert all((tree.ROOT / name).exists() for name in led)
    assert "font: false" in text and not re.search(r"https?://", text)


def test_the_index_leads_to_every_document():
    text = (DOCS / "index.md").read_text()
    missing = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")
               if path.name != "index.md" and not re.match(r"0\d", path.name)
               and "({})".format(path.relative_to(DOCS).as_posix()) not in text]
    assert missing == []


def main():
    for name in MADE:
        (DOCS / name).write_text(made(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
