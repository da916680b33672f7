"""Few cases of a product have every value of every factor."""
import itertools

from tests.support.covering import diagonal


def test_the_diagonal_has_every_value_in_as_few_rows_as_the_longest_factor_has_values():
    rows = list(itertools.product("abcd", [1, 2]))
    assert [rows[number] for number in sorted(diagonal(rows))] == [("a", 1), ("b", 2), ("c", 1), ("d", 2)]


def test_values_that_the_diagonal_of_an_incomplete_product_lacks_are_added():
    rows = [("a", 1), ("a", 2), ("b", 1), ("c", 2)]  # ("b", 2) and ("c", 1) are not there
    chosen = {rows[number] for number in diagonal(rows)}
    assert ("a", 1) in chosen
    assert {letter for letter, _ in chosen} == set("abc") and {number for _, number in chosen} == {1, 2}


def test_a_single_factor_keeps_all_rows():
    assert diagonal([("a",), ("b",), ("c",)]) == {0, 1, 2}
