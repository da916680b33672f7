"""Documents are easy to read: short sentences and paragraphs, lines of 100 columns, no idioms of the house.

These are the patterns that readers of earlier versions had to read twice; a test cannot judge the rest.
"""
import re
from typing import Iterator, List, NamedTuple

import pytest

from tests.support import tree

MOST_WORDS = 35  #: in a sentence
MOST_LINES = 6  #: in a paragraph or an item of a list
WIDEST = 100  #: columns of a line, except code and rows of tables

DOCUMENTS = sorted(path for path in tree.text_files(".md") if not tree.name(path).startswith("tests/house"))

#: pattern: what to write instead
IDIOMS = {
    r"^(Those|That|Others|The same) of\b": "the noun",
    r"\b[Tt]hose of\b": "the noun",
    r"\b(of|among) (which|whom|whose)\b": "a second sentence",
    r"\b(is|are) E\d{3}\b": "raises E...",
    r"\bso as to\b|\bas ever\b|\blest\b|\bhence\b|\bthus\b|\bupon\b|\bnay\b": "plain words",
    r"\bmend(s|ed|ing)?\b": "correct, repair or fix",
}


class Block(NamedTuple):
    """A paragraph or an item of a list, and the number of its first line."""

    line: int
    lines: List[str]

    @property
    def text(self) -> str:
        links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(self.lines))
        return re.sub(r"`[^`]*`", "`code`", links)

    def sentences(self) -> List[str]:
        return re.split(r"(?<=[.!?:;])\**\s+(?=[A-Z`*\d])", self.text)


def blocks(lines) -> Iterator[Block]:
    block: List[str] = []
    start, is_code = 0, False
    for number, line in enumerate([*lines, ""], 1):
        is_fence = line.lstrip().startswith("```")
        is_code ^= is_fence
        ends = is_code or is_fence or line.lstrip().startswith(("|", "#", "<")) or not line.strip()
        if block and (ends or re.match(r"\s*([-*]|\d+\.) ", line)):
            yield Block(start, block)
            block = []
        if not ends:
            start = start if block else number
            block.append(line.strip())


def wide(lines) -> Iterator[str]:
    is_code = False
    for number, line in enumerate(lines, 1):
        is_code ^= line.lstrip().startswith("```")
        is_one_word = len(line.split()) <= 1 or re.match(r"\s*[-*] \S+$", line)
        if len(line) > WIDEST and not is_code and not line.startswith("|") and not is_one_word:
            yield "{}: {} columns".format(number, len(line))


def faults(lines) -> Iterator[str]:
    """Describe what is hard to read, with the number of its line."""
    yield from wide(lines)
    for block in blocks(lines):
        if len(block.lines) > MOST_LINES:
            yield "{}: a paragraph of {} lines".format(block.line, len(block.lines))
        for sentence in block.sentences():
            if len(sentence.split()) > MOST_WORDS:
                yield "{}: a sentence of {} words: {}".format(block.line, len(sentence.split()), sentence)
            for pattern, instead in IDIOMS.items():
                found = re.search(pattern, sentence)
                if found:
                    yield "{}: write {} instead of {!r}: {}".format(block.line, instead, found.group(), sentence)


@pytest.mark.parametrize("path", DOCUMENTS, ids=tree.name)
def test_a_document_is_easy_to_read(path):
    wrong = list(faults(tree.lines(path)))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("text, fault", [
    ("word " * 36 + "end.", "a sentence of 37 words"),
    ("a line\n" * 7, "a paragraph of 7 lines"),
    ("word " * 21, "105 columns"),
    ("Those of ranks are longer.", "instead of 'Those of'"),
    ("A lookup before the start is E205 and nothing runs.", "instead of 'is E205'"),
    ("It has rows, of which some are on disk.", "instead of 'of which'"),
])
def test_a_text_that_is_hard_to_read_is_found(text, fault):
    assert any(fault in wrong for wrong in faults(text.split("\n")))


def test_code_tables_and_links_are_not_prose():
    text = "```\n" + "x " * 60 + "\n```\n| " + "x | " * 40 + "\n[a link]({})".format("y" * 90)
    assert not list(faults(text.split("\n")))
