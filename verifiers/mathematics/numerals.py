"""Numbers in a text: decimals, mixed numbers, numerals in a base, and subscripts."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from verifiers.mathematics.cursor import Cursor
from verifiers.mathematics.nodes import Node, Numeral
from verifiers.mathematics.tokens import Refused, Unreadable

MAX_DIGITS = 4000
MAX_EXPONENT = 10_000
"""Of a number in scientific notation."""
_BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
               "eleven": 11, "twelve": 12, "sixteen": 16, "hex": 16, "bin": 2, "oct": 8}  # fmt: skip


class Numerals(Cursor):
    """Reads numbers."""

    def _decimal_number(self) -> Node:
        text = self._next.text
        self._at += 1
        return Node("num", (), read_numeral(text))

    def _number(self) -> Node:
        token = self._next
        node = self._decimal_number()
        if self._is("_"):
            return self._subscript(node, token.text)
        if not token.text.isdigit():
            return node
        following = self._next
        if following.kind == "cmd" and following.text == "frac" and self._peek(2).kind != "text":
            return self._mixed(node)
        if following.kind == "num" and following.blank and self._peek().text == "/" and following.text.isdigit():
            bottom = self._peek(2)
            if bottom.kind == "num" and bottom.text.isdigit() and 0 < int(following.text) < int(bottom.text):
                self._at += 3
                return _mixed(node, Fraction(int(following.text), int(bottom.text)))
        return node

    def _mixed(self, whole: Node) -> Node:
        """A whole number before a proper fraction of numerals; otherwise only the whole number is taken."""
        start = self._at
        self._at += 1
        fraction = self._nested(self._fraction)
        top, bottom = fraction.args if fraction.op == "div" else (fraction, fraction)
        if top.op == bottom.op == "num" and not self._is("^"):
            a, b = top.value.value, bottom.value.value
            if a.denominator == b.denominator == 1 and 0 < a < b:
                return _mixed(whole, a / b)
        self._at = start
        return whole

    def _subscript(self, node: Node, digits: str = "") -> Node:
        """The base of a numeral (143_6), or a part of a name (x_1)."""
        self._expect("_")
        label = self._label()
        if node.op == "num" or (node.op == "text" and label.isdigit()):
            if not digits:
                digits = str(node.value.value) if node.op == "num" else node.value
            base = _BASE_WORDS.get(label.lower(), int(label) if label.isdigit() and len(label) < 3 else 0)
            if base < 2:
                raise Unreadable("a subscript of a number")
            return Node("based", (), (digits.upper().lstrip("0") or "0", base))
        if node.op == "sym":
            return Node("sym", (), f"{node.value}_{label}")
        if node.op == "const" and node.value in ("e", "i"):
            return Node("sym", (), f"{node.value}_{label}")
        if node.op == "mul" and label.isdigit() and all(factor.op in ("sym", "num", "const") for factor in node.args):
            return Node("based", (), ("".join(map(_plain, node.args)).upper(), int(label)))
        raise Unreadable("a subscript")

    def _label(self) -> str:
        """The text of a subscript."""
        if not self._is("{"):
            token = self._next
            self._at += 1
            if token.kind in ("num", "sym", "text", "cmd"):
                return token.text
            raise Unreadable("a subscript")
        self._at += 1
        depth, parts = 1, []
        while depth:
            token = self._next
            if token.kind == "end":
                raise Unreadable("a subscript that never closes")
            depth += (token.text == "{") - (token.text == "}") if token.kind == "op" else 0
            parts.append(token.text)
            self._at += 1
        return "".join(parts[:-1]).strip("()")


def whole_number(digits: str) -> int:
    """The value of digits, perhaps with a minus sign; of more of them than `int` takes, in halves."""
    if digits[:1] == "-":
        return -whole_number(digits[1:])
    if len(digits) <= MAX_DIGITS:
        return int(digits)
    half = len(digits) // 2
    return whole_number(digits[:-half]) * 10**half + whole_number(digits[-half:])


@lru_cache(maxsize=4096)
def read_numeral(text: str) -> Numeral:
    """The exact value of digits with at most one point, perhaps with a power of ten behind an e."""
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or abs(int(exponent or 0)) > MAX_EXPONENT:
        raise Refused("too_many_digits")
    whole, point, part = mantissa.partition(".")
    value = Fraction(int(whole + part), 10 ** len(part)) if part else Fraction(int(whole or 0))
    if exponent:
        power, digits = int(exponent), len((whole + part).lstrip("0"))
        return Numeral(value * Fraction(10) ** power, len(part) - power, digits)
    return Numeral(value, len(part) if point else None, len((whole + part).lstrip("0")))


def _mixed(whole: Node, fraction: Fraction) -> Node:
    return Node("num", (), Numeral(whole.value.value + fraction))


def in_base(factors: list[Node]) -> Node | None:
    """A numeral with letters as digits, such as 1A_{16}, which reads like a product."""
    last = factors[-1]
    if last.op == "based":
        head, base = last.value[0], str(last.value[1])
    else:
        head, _, base = str(last.value).partition("_")
    if len(factors) < 2 or last.op not in ("sym", "based") or not (base.isdigit() and 10 < int(base[:3]) <= 36):
        return None
    digits = "".join(_plain(factor) if factor.op in ("num", "sym", "const") else "?" for factor in factors[:-1]) + head
    return Node("based", (), (digits.upper(), int(base))) if digits.isalnum() and digits.isascii() else None


def _plain(node: Node) -> str:
    return str(node.value.value) if node.op == "num" else node.value
