"""Numbers with units and money: what stands in front of a number, and what may follow it."""

from __future__ import annotations

import re

from verifiers.mathematics.cursor import END
from verifiers.mathematics.nodes import Node, names, negative, number
from verifiers.mathematics.numerals import Numerals
from verifiers.mathematics.tokens import Token, Unreadable
from verifiers.mathematics.units import CURRENCIES, DEGREE, LETTERS, Unit, find_unit, read_unit

ENGLISH = names("to of is the are was for its we them this that there")
_SCALES = names("hundred thousand million billion trillion dozen")
_SHORT_VOWELS = re.compile("[aeiou]")


class Quantities(Numerals):
    """Reads quantities."""

    def _unit_ahead(self, factors: list[Node]) -> bool:
        token = self._next
        if factors[-1].op == "unit":
            return token.kind == "text" and token.text.lower() in _SCALES
        if token.kind == "cmd":
            if token.text == "frac":
                return self._peek().text == "{" and self._peek(2).kind == "text" and self._peek(2).style != "plain"
            return token.text in ("pounds", "euro", "yen", "rupee", "cents") or (token.text == "degree")
        if token.kind == "op":
            return token.text == "$" and self._peek().kind == "end"
        if token.kind == "text":
            if token.style != "plain":
                return len(token.text) != 1 or token.blank or token.text in LETTERS or factors[-1].op == "num"
            return self._plain_unit(token, factors)
        is_letter = token.kind == "sym" and token.blank and token.text in LETTERS and factors[-1].op == "num"
        return is_letter and self._is_whole_item() and self._only_units_follow()

    def _is_whole_item(self) -> bool:
        """Whether the number just read begins an item of the text: in 3 + 5 s, the s is a variable."""
        before = self._tokens[self._at - 2] if self._at > 1 else END
        if before.text in ("-", "+", "pm"):
            before = self._tokens[self._at - 3] if self._at > 2 else END
        return self._depth == 0 and (before.kind in ("end", "sep") or before.text in ("=", "approx"))

    def _only_units_follow(self) -> bool:
        """Whether the letter ahead ends the quantity, perhaps with a power or another unit: `8 m`, `8 m/s^2`."""
        for at in range(self._at, len(self._tokens)):
            token = self._tokens[at]
            if token.kind in ("end", "sep"):
                return True
            is_unit = token.text in LETTERS if token.kind == "sym" else find_unit(token.text) is not None
            is_power = token.kind == "num" or token.text in ("^", "/", "{", "}", "-", "cdot")
            if not (is_power if token.kind in ("op", "num") else is_unit) or (token.text == "-" and token.blank):
                return False
        return True

    def _plain_unit(self, token: Token, factors: list[Node]) -> bool:
        if token.text in ENGLISH:
            return False
        if find_unit(token.text) is not None:
            if token.blank:
                return True
            return factors[-1].op == "num" and self._is_whole_item() and self._only_units_follow()
        if len(token.text) < 3 or not token.blank:
            return False
        return len(token.text) > 3 or bool(_SHORT_VOWELS.search(token.text))

    def _with_unit(self, node: Node) -> Node:
        """The quantity with the unit that stands behind it, which may be several words."""
        start, parts = self._at, [""]
        is_plain = self._next.kind == "sym" or self._next.style == "plain"
        while True:
            token = self._next
            if token.kind == "text" or (token.kind == "sym" and (parts[-1] in ("", "/", "*") or self._at == start)):
                parts.append(token.text)
            elif token.kind == "cmd" and token.text in ("pounds", "euro", "yen", "rupee", "cents"):
                parts.append({"pounds": "£", "euro": "€", "yen": "¥", "rupee": "₹", "cents": "¢"}[token.text])
            elif token.kind == "op" and token.text == "$":
                parts.append("$")
            elif token.kind == "op" and token.text in ("/", "cdot") and self._peek().kind in ("text", "sym"):
                parts.append("/" if token.text == "/" else "*")
            elif token.kind == "cmd" and token.text == "frac":
                parts.append(self._unit_fraction())
                continue
            elif token.kind == "op" and token.text == "^" and parts[-1]:
                parts[-1] += "^" + self._unit_power()
                continue
            else:
                break
            self._at += 1
        unit = read_unit(" ".join(parts))
        if unit is None:
            raise Unreadable("words")
        if node.op == "unit":  # $2.5 million
            if unit.dimensions:
                raise Unreadable("two units")
            return node._replace(args=(Node("mul", (node.args[0], number(unit.factor))),))
        if not unit.dimensions:  # 5 million
            return Node("mul", (node, number(unit.factor))) if unit.factor != 1 else node
        name = parts[1].partition("^")[0]
        if len(parts) == 2 and (len(name) < 4 if is_plain else len(name) == 1 and find_unit(name) is None):
            unit = unit._replace(letter=parts[1])
        quantity = Node("unit", (node,), unit)
        return self._compound(quantity)

    def _unit_fraction(self) -> str:
        """miles per hour as a fraction."""
        self._at += 1
        return f"{self._label()}/{self._label()}"

    def _unit_power(self) -> str:
        self._at += 1
        return self._label() if self._is("{") else self._signed_label()

    def _signed_label(self) -> str:
        sign = "-" if self._take("-") else ""
        return sign + self._label()

    def _compound(self, quantity: Node) -> Node:
        """2 hours 30 minutes, 5 ft 6 in: the sum in the first unit."""
        if self._next.kind != "num" or not isinstance(quantity.value, Unit):
            return quantity
        if self._peek().kind != "text" or find_unit(self._peek().text) is None:
            return quantity
        second = self._nested(self._term)
        if second.op != "unit" or second.value.dimensions != quantity.value.dimensions:
            raise Unreadable("two quantities")
        scaled = Node("mul", (second.args[0], number(second.value.factor / quantity.value.factor)))
        return quantity._replace(args=(Node("add", (quantity.args[0], scaled)),))

    def _money(self, sign: str) -> Node:
        self._take("-")
        minus = self._tokens[self._at - 1].text == "-"
        amount = Node("unit", (self._factor(),), CURRENCIES[sign])
        return negated(amount) if minus else amount

    def _degrees(self, node: Node) -> Node:
        scale = self._next
        if scale.text in ("C", "F", "K") and scale.kind in ("sym", "text"):
            self._at += 1
            return Node("unit", (node,), find_unit({"C": "celsius", "F": "fahrenheit", "K": "kelvin"}[scale.text]))
        if self._next.kind == "num" and self._peek().text == "'":
            minutes = self._decimal_number()
            self._at += 1
            node = Node("add", (node, Node("div", (minutes, number(60)))))
            if self._next.kind == "num" and self._peek().text in ("'", '"'):
                seconds = self._decimal_number()
                while self._take("'", '"'):
                    pass
                node = Node("add", (node, Node("div", (seconds, number(3600)))))
        return Node("unit", (node,), DEGREE)


def negated(node: Node) -> Node:
    """The negative; the sign of a quantity goes to its number."""
    if node.op == "unit":
        return node._replace(args=(negative(node.args[0]),))
    return negative(node)
