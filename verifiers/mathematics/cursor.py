"""Reading tokens one by one, with a guard on depth: what all parts of the parser share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from verifiers.mathematics.nodes import Node
from verifiers.mathematics.tokens import Refused, Token, Unreadable

MAX_DEPTH = 60
"""Of nested brackets, braces and fractions, after doubled brackets were merged."""
END = Token("end", "")


class Cursor(ABC):
    """One pass over a list of tokens. Every method that reads a phrase leaves `_at` behind it."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = [*tokens, END]
        self._at = 0
        self._depth = 0
        self._bars = 0
        self._no_ratio = 0
        self._angle = False
        self._closing_bracket = False
        """Whether a `[` may end the bracket that is being read."""

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _is(self, *texts: str) -> bool:
        token = self._tokens[self._at]
        return token.kind in ("op", "cmd") and token.text in texts

    def _take(self, *texts: str) -> bool:
        if self._is(*texts):
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise Unreadable(f"expected {text!r}, found {self._next.text!r}")

    def _nested(self, read: Callable[[], Node]) -> Node:
        if self._depth >= MAX_DEPTH:
            raise Refused("nested_too_deeply")
        self._depth += 1
        try:
            return read()
        finally:
            self._depth -= 1

    @abstractmethod
    def _argument(self) -> Node: ...

    @abstractmethod
    def _bracket(self, opening: str) -> Node: ...

    @abstractmethod
    def _factor(self) -> Node: ...

    @abstractmethod
    def _fraction(self) -> Node: ...

    @abstractmethod
    def _group(self) -> Node: ...

    @abstractmethod
    def _primary(self) -> Node: ...

    @abstractmethod
    def _relation(self) -> Node: ...

    @abstractmethod
    def _starts_factor(self) -> bool: ...

    @abstractmethod
    def _sum(self) -> Node: ...

    @abstractmethod
    def _term(self) -> Node: ...
