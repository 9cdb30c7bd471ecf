"""Thinking budgets: one trace a sample, a fork at every budget, and the proof that each was honoured."""

from reasoning.budget.controller import BudgetController
from reasoning.budget.parse import BudgetError, format_budget, parse_budget, parse_budgets
from reasoning.budget.room import check_room, thinking_room
from reasoning.budget.sampling import Sampling, Waits
from reasoning.budget.verify import check

__all__ = [
    "BudgetController",
    "BudgetError",
    "Sampling",
    "Waits",
    "check",
    "check_room",
    "format_budget",
    "parse_budget",
    "parse_budgets",
    "thinking_room",
]
