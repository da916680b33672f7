"""Tables that are laid out for a width: no text is cut, and no line is wider."""
import random

import pytest
from rich.cells import cell_len

from ascpipe.cli.fitting import fitted, wrapped

COLUMNS = ["table", "ids/s", "device hit"]
ROWS = [["user_profile_long_term_interests", "1,234,567", "95.4 %"], ["item", "7", "-"]]


def test_a_table_with_room_has_a_line_per_row_with_aligned_cells():
    told = fitted(COLUMNS, ROWS, 80)
    assert told.head == ["table                                 ids/s  device hit"]
    assert told.rows == [["user_profile_long_term_interests  1,234,567      95.4 %"],
                         ["item                                      7           -"]]


def test_a_table_without_room_has_names_on_their_own_lines():
    told = fitted(COLUMNS, ROWS, 34)
    assert told.head == ["table", "      ids/s  device hit"]
    assert told.rows == [["user_profile_long_term_interests", "  1,234,567      95.4 %"],
                         ["item", "          7           -"]]


def test_a_name_that_is_wider_than_the_screen_is_continued_on_the_next_line():
    told = fitted(COLUMNS, ROWS, 20)
    assert told.rows[0][:2] == ["user_profile_long_te", "rm_interests"]


@pytest.mark.parametrize("seed", range(40))
def test_no_text_is_lost_and_no_line_is_wider(seed):
    rng = random.Random(seed)
    names = ["".join(rng.choice("ab_ c\u65e5\u00e9") for _ in range(rng.randrange(1, 60))).strip() or "x"
             for _ in range(5)]
    rows = [[name, str(rng.randrange(10 ** rng.randrange(1, 12))), str(rng.random())] for name in names]
    width = rng.randrange(2, 100)
    told = fitted(COLUMNS, rows, width)
    for lines, row in zip(told.rows, rows):
        assert max(map(cell_len, lines)) <= width
        assert "".join("".join(lines).split()) == "".join("".join(row).split())


def test_text_is_broken_at_spaces():
    assert wrapped("the table worker to plan it", 12) == ["the table", "worker to", "plan it"]
    assert wrapped("", 5) == [""]
