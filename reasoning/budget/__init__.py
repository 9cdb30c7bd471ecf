"""Thinking budgets: one trace a sample, a fork at every budget, and the proof that each was honoured."""

from reasoning.budget.controller import BudgetController
from reasoning.budget.room import check_room, thinking_room
from reasoning.budget.sampling import Sampling, Waits
from reasoning.budget.verify import check

__all__ = [
    "BudgetController",
    "Sampling",
    "Waits",
    "check",
    "check_room",
    "thinking_room",
]
