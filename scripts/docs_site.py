"""Steps of `make docs` before and after mkdocs.

``docs_site.py lay-out FOLDER`` copies the documents and all files to which they link. Files keep their places, so that
links are the same as in the tree. A link to a folder is changed to a link to its README. A link whose text is the name
of a page gets the title of the page as its text.

``docs_site.py check FOLDER`` checks the site: each link must lead to a page and to a heading of the page, and no page
may load data from another host.
"""
import html.parser
import os
import re
import shutil
import sys
from pathlib import Path
from typing import List, Optional, Tuple
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\[[\w./-]+\.md)?(\]\()(?!https?:|#|mailto:)([^)#\s]+)")
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def lay_out(folder: str) -> int:
    """Copy the documents. Return the exit code, which is 1 if the target of a link does not exist."""
    target = Path(folder)
    shutil.rmtree(str(target), ignore_errors=True)
    waiting = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    done, broken = set(), []
    while waiting:
        path = waiting.pop()
        if path in done:
            continue
        done.add(path)
        if not path.exists():
            broken.append(str(path.relative_to(ROOT)))
            continue
        copy = target / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            copy.write_text(_laid_out(path, waiting))
        else:
            shutil.copy(str(path), str(copy))
    for name in broken:
        print("docs: a link refers to {}, which does not exist".format(name), file=sys.stderr)
    return 1 if broken else 0


class _Page(html.parser.HTMLParser):
    """Links, loaded files and link targets of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: List[str] = []
        self.loads: List[str] = []
        self.places = {""}
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: List[Tuple[str, Optional[str]]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given.get("id", ""), given.get("name", "")}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe"):
            self.loads.append(given.get("src", ""))


def check(folder: str) -> int:
    """Check the site. Return the exit code, which is 1 if a link is broken or a page loads data from another host."""
    site = Path(folder).resolve()
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    wrong = []
    for path, page in pages.items():
        name = path.relative_to(site)
        wrong += ["{} loads {}".format(name, load) for load in page.loads if re.match(r"(https?:)?//", load)]
        for link in page.links:
            if re.match(r"https?:|mailto:|javascript:", link):
                continue
            there, _, place = link.partition("#")
            target = Path(os.path.normpath(str(path.parent / there))) if there else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists() or (target in pages and unquote(place) not in pages[target].places):
                wrong.append("{} leads to {}".format(name, link))
    for line in wrong:
        print("docs: {}".format(line), file=sys.stderr)
    print("docs: {} pages in {}".format(len(pages), folder))
    return 1 if wrong else 0


def _laid_out(path: Path, waiting: List[Path]) -> str:
    """Return the text of a document with adapted links. Linked files are added to ``waiting``."""

    def link(match: "re.Match[str]") -> str:
        text, opening, name = match.groups(default="")
        found = Path(os.path.normpath(str(path.parent / name)))
        if found.is_dir():
            found, name = found / "README.md", name.rstrip("/") + "/README.md"
        waiting.append(found)
        title = TITLE.search(found.read_text()) if text and found.is_file() else None
        return (text if title is None else "[" + title.group(1)) + opening + name

    text, code = [], False
    for line in path.read_text().splitlines(True):
        code ^= line.lstrip().startswith("```")
        text.append(line if code else LINK.sub(link, line))
    return "".join(text)


if __name__ == "__main__":
    sys.exit({"lay-out": lay_out, "check": check}[sys.argv[1]](sys.argv[2]))
