import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasoning.budgets import BudgetError, format_budget, parse_budget, parse_budgets
from reasoning.types import NO_LIMIT


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("1k", 1000),
        ("50K", 50_000),
        ("10_000", 10_000),
        ("64", 64),
        ("0", 0),
        (" none ", NO_LIMIT),
        ("None", NO_LIMIT),
        ("2_147_483k", 2_147_483_000),
    ],
)
def test_reads_counts(text: str, tokens: int):
    assert parse_budget(text) == tokens


@pytest.mark.parametrize("text", ["10kk", "", "k", "-1", "1.5k", "1e3", "007", "1__0", "_1", "1_", "ten", "1 k", "１k"])
def test_refuses_anything_else_and_says_what_to_write(text: str):
    with pytest.raises(BudgetError) as error:
        parse_budget(text)
    assert str(error.value) == f"'{text}' is not a token count; write 10k, 10_000 or none"


def test_refuses_a_count_that_would_read_as_no_limit():
    with pytest.raises(BudgetError, match="write none"):
        parse_budget(str(NO_LIMIT))


def test_lists_are_sorted_and_free_of_duplicates():
    assert parse_budgets("50k,none,1k, 10_000,1000,0") == (0, 1000, 10_000, 50_000, NO_LIMIT)


@pytest.mark.parametrize("text", ["10,000", "1k,,2k", "1k,", ""])
def test_refuses_lists_with_something_else_in_them(text: str):
    with pytest.raises(BudgetError):
        parse_budgets(text)


@pytest.mark.parametrize(
    ("budget", "text"),
    [(0, "0"), (64, "64"), (999, "999"), (1000, "1k"), (1500, "1500"), (50_000, "50k"), (NO_LIMIT, "none")],
)
def test_formats_as_people_write(budget: int, text: str):
    assert format_budget(budget) == text


@given(st.integers(0, NO_LIMIT))
def test_formatting_is_undone_by_parsing(budget: int):
    assert parse_budget(format_budget(budget)) == budget
