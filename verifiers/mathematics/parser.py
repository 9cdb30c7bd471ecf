"""A recursive-descent parser for the mathematics of answers, LaTeX or plain. It builds trees and computes nothing.

Brackets may be unequal, as in `[0, 3)`. A text behind a product is its unit. What asks for work that was not done (an
integral, a limit, a sum, a derivative) becomes one node `unevaluated`.
"""

from __future__ import annotations

from verifiers.mathematics.brackets import bracket_node, merge_brackets
from verifiers.mathematics.commands import Commands
from verifiers.mathematics.nodes import Node, names, negative, product
from verifiers.mathematics.numerals import in_base
from verifiers.mathematics.quantities import negated
from verifiers.mathematics.tokens import Refused, Unreadable, tokenise
from verifiers.mathematics.units import PERCENT

MAX_HEIGHT = 150
"""Of a tree, for those who walk down it."""

_RELATIONS = names("= < > le ge ne in notin approx equiv subset subseteq")
_CLOSERS = {"(": ")][", "[": ")][", "]": "][)", "{{": ("}}",), "langle": ("rangle",), "<": (">",)}
_NO_FACTOR = names(
    "cup cap setminus in notin approx equiv subset subseteq to circ mid rangle rfloor rceil pm mp times div le ge ne "
    "iff perp parallel prime newline quad ldots cents degree hline text not mod pmod bmod over choose"
) | {"pounds", "euro", "yen", "rupee"}


class Parser(Commands):
    """Reads whole texts: lists, relations, sums, products, powers and brackets."""

    def whole(self) -> Node:
        node = self._over()
        if self._next.kind != "end":
            raise Unreadable(f"cannot read {self._next.text!r}")
        return node

    def _statement(self) -> Node:
        """Relations joined by commas, "and", "or" and new lines."""
        items, separators = [], set()
        while True:
            while self._next.kind == "sep" or self._is("newline", "&"):
                self._at += 1
            if self._ends():
                break
            items.append(self._relation())
            if self._next.kind == "sep":
                separators.add(self._next.text)
            elif self._is("newline"):
                separators.add(",")
            else:
                break
        if not items:
            raise Unreadable("nothing to read")
        if len(items) == 1:
            return items[0]
        kind = "or" if "or" in separators else "and" if separators == {"and"} else ","
        return Node("list", tuple(items), kind)

    def _ends(self) -> bool:
        token = self._next
        if token.kind in ("end", "end_environment"):
            return True
        if token.kind == "end" or (token.kind == "op" and token.text in (")", "]", "}}", "}")):
            return token.text != "]" or self._depth > 0
        return token.kind == "cmd" and token.text in ("rangle", "rfloor", "rceil")

    def _relation(self) -> Node:
        """Expressions joined by =, <, \\in ...; a leading relation sign has an empty left side."""
        operators: list[str] = []
        sides: list[Node] = []
        if self._is(*_RELATIONS) and not (self._is("<") and self._angle_ahead()):
            sides.append(Node("empty"))
        else:
            sides.append(self._sets())
        while (self._is(*_RELATIONS) and not (self._angle and self._is(">"))) or (
            self._is("&") and self._peek().text in _RELATIONS
        ):
            self._take("&")
            operators.append(self._next.text)
            self._at += 1
            self._take("&")
            sides.append(self._sets())
        if not operators:
            return sides[0]
        if sides[0].op == "empty" and operators[0] in ("=", "approx", "equiv"):
            return sides[1] if len(sides) == 2 else Node("rel", tuple(sides[1:]), tuple(operators[1:]))
        return Node("rel", tuple(sides), tuple(operators))

    def _angle_ahead(self) -> bool:
        """Whether a `<` opens a vector such as <1, 2>."""
        rest = self._tokens[self._at + 1 :]
        signs = [token.text for token in rest if token.text in (">", ",", "<")]
        return "," in signs and ">" in signs and signs.index(",") < signs.index(">")

    def _sets(self) -> Node:
        node = self._ratio()
        while self._is("cup", "cap", "setminus"):
            op = {"cup": "cup", "cap": "cap", "setminus": "minus"}[self._next.text]
            self._at += 1
            node = Node(op, (node, self._ratio()))
        return node

    def _ratio(self) -> Node:
        node = self._sum()
        parts = [node]
        while not self._no_ratio and (self._is(":") or (self._next.kind == "text" and self._next.text == "to")):
            self._at += 1
            parts.append(self._sum())
        return Node("ratio", tuple(parts)) if len(parts) > 1 else node

    def _sum(self) -> Node:
        terms: list[Node] = []
        sign = ""
        if self._is("+", "-", "pm", "mp"):
            sign = self._next.text
            self._at += 1
        terms.append(self._signed(sign))
        while self._is("+", "-", "pm", "mp"):
            sign = self._next.text
            self._at += 1
            terms.append(self._signed(sign))
        return terms[0] if len(terms) == 1 else Node("add", tuple(terms))

    def _signed(self, sign: str) -> Node:
        flip = False
        while self._is("+", "-"):  # 3 + -4
            flip ^= self._next.text == "-"
            self._at += 1
        term = self._term()
        if flip:
            term = negated(term)
        if sign == "-":
            return negated(term)
        if sign in ("pm", "mp"):
            return term._replace(args=(Node(sign, term.args),)) if term.op == "unit" else Node(sign, (term,))
        return term

    def _term(self) -> Node:
        node = self._factor()
        factors = [node]
        while True:
            if self._is("cdot", "times"):
                self._at += 1
                factors.append(self._signed_factor())
            elif self._is("/", "div"):
                self._at += 1
                factors = [Node("div", (product(*factors), self._signed_factor()))]
            elif self._unit_ahead(factors):
                factors = [self._with_unit(product(*factors))]
            elif self._starts_factor():
                factors.append(self._factor())
            else:
                return in_base(factors) or product(*factors)

    def _signed_factor(self) -> Node:
        if self._take("-"):
            return negative(self._factor())
        self._take("+")
        return self._factor()

    def _starts_factor(self) -> bool:
        token = self._next
        if token.kind in ("num", "sym", "fn", "begin"):
            return True
        if token.kind == "text":
            return token.text not in ("to",)
        if token.kind == "op":
            if token.text == "|":
                return self._bars == 0 and not self._no_ratio
            if token.text == "[" and self._depth and self._closing_bracket:
                return False
            return token.text in ("(", "[", "{", "{{", "Vert", "$")
        return token.kind == "cmd" and token.text not in _NO_FACTOR

    def _factor(self) -> Node:
        """A primary with its powers, factorials, percent and degree signs."""
        node = self._primary()
        while True:
            if self._is("^"):
                self._at += 1
                node = self._power(node)
            elif self._take("!"):
                is_double = node.op == "fact" and self._tokens[self._at - 2].text == "!"
                node = Node("fact2", node.args) if is_double else Node("fact", (node,))
            elif self._take("%"):
                node = Node("unit", (node,), PERCENT)
            elif self._is("_"):
                node = self._subscript(node)
            elif self._is("circ", "cents", "prime", "'"):
                node = self._mark(node)
            else:
                return node

    def _power(self, node: Node) -> Node:
        if self._take("circ"):
            return self._degrees(node)
        if self._is("{") and self._peek().text == "circ" and self._peek(2).text == "}":
            self._at += 3
            return self._degrees(node)
        if self._is("prime", "'"):
            return self._mark(node)
        exponent = self._argument()
        if node.op == "unit" and node.args:  # 5 \text{ cm}^2: handled with the unit; here a percentage or degrees
            raise Unreadable("a power of a quantity")
        return Node("pow", (node, exponent))

    def _argument(self) -> Node:
        """What follows ^: a group, a signed number, or one factor without its own power."""
        if self._is("{"):
            return self._group()
        if self._is("+", "-"):
            flip = self._next.text == "-"
            self._at += 1
            inner = self._argument()
            return negative(inner) if flip else inner
        return self._nested(self._primary_with_power)

    def _primary_with_power(self) -> Node:
        node = self._primary()
        return self._power(node) if self._take("^") else node

    def _group(self) -> Node:
        """{...} as one argument; a list in plain braces is a set."""
        self._expect("{")
        if self._take("}"):
            return Node("empty")
        bars, self._bars = self._bars, 0
        node = self._nested(self._over)
        self._bars = bars
        self._expect("}")
        return Node("set", node.args) if node.op == "list" else node

    def _over(self) -> Node:
        r"""What a group holds: a statement, or two with \over between them."""
        node = self._statement()
        if self._take("over"):
            return Node("div", (node, self._statement()))
        return Node("fn", (node, self._statement()), "binom") if self._take("choose") else node

    def _primary(self) -> Node:
        token = self._next
        if token.kind == "num":
            return self._number()
        if token.kind == "sym":
            return self._symbol()
        if token.kind == "fn":
            return self._nested(self._function)
        if token.kind == "begin":
            return self._nested(self._environment)
        if token.kind == "text":
            return self._word()
        if token.kind == "op":
            return self._bracketed(token.text)
        if token.kind == "cmd":
            self._at += 1
            return self._command(token.text)
        raise Unreadable(f"cannot read {token.text!r}")

    def _bracketed(self, sign: str) -> Node:
        self._at += 1
        if sign == "{":
            self._at -= 1
            return self._group()
        if sign in ("|", "Vert"):
            return self._absolute(sign)
        if sign in _CLOSERS:
            return self._nested(lambda: self._bracket(sign))
        if sign == "$":
            return self._money("$")
        raise Unreadable(f"cannot read {sign!r}")

    def _absolute(self, sign: str) -> Node:
        self._bars += 1
        node = self._nested(self._sum)
        self._bars -= 1
        self._expect(sign)
        return Node("fn", (node,), "abs")

    def _bracket(self, opening: str) -> Node:
        """Anything between brackets that may differ: a group, a tuple, an interval or a set."""
        bars, self._bars, outer = self._bars, 0, self._closing_bracket
        ratio, self._no_ratio = self._no_ratio, self._no_ratio if opening != "{{" else 1
        items: list[Node] = []
        separators: set[str] = set()
        angle, self._angle = self._angle, opening == "<"
        self._closing_bracket = False
        while not self._is(*_CLOSERS[opening]) or self._is("["):
            items.append(self._relation())
            if self._is("|", "mid", ":") and opening == "{{" and len(items) == 1:
                self._at += 1
                self._no_ratio = ratio
                items = [Node("builder", (items[0], self._statement()))]
                break
            if self._next.kind != "sep":
                break
            separators.add(self._next.text)
            self._at += 1
            while self._next.kind == "sep":
                self._at += 1
            self._closing_bracket = opening in ("[", "]", "(")
        self._bars, self._no_ratio, self._closing_bracket, self._angle = bars, ratio, outer, angle
        closing = self._next.text
        if not self._take(*_CLOSERS[opening]):
            raise Unreadable("a bracket that never closes")
        return bracket_node(opening, closing, items, separators)


def parse(text: str) -> Node:
    """The tree of a text in the spelling of the module `normal`. Raises `Unreadable`, or `Refused` for a monster."""
    node = Parser(merge_brackets(tokenise(text))).whole()
    if _height(node) > MAX_HEIGHT:
        raise Refused("nested_too_deeply")
    return node


def _height(node: Node) -> int:
    """The longest way down from a node."""
    height, level = 0, [node]
    while level and height <= MAX_HEIGHT:
        level = [below for above in level for below in above.args]
        height += 1
    return height
