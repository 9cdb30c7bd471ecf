"""LaTeX commands: fractions, roots, functions with their arguments, matrices, and work that was not done."""

from __future__ import annotations

from verifiers.mathematics.cursor import END
from verifiers.mathematics.nodes import Node, names, negative, number, product
from verifiers.mathematics.numerals import read_numeral
from verifiers.mathematics.quantities import ENGLISH
from verifiers.mathematics.symbols import Symbols
from verifiers.mathematics.tokens import FUNCTIONS, Token, Unreadable
from verifiers.mathematics.units import CURRENCIES, DEGREE

_UNEVALUATED = names("int iint iiint oint sum prod lim limsup liminf partial nabla coprod")
_GREEK = names(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau phi chi psi omega "
    "Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega ell hbar"
)
_DECORATIONS = names("vec hat tilde check breve acute grave ddot widehat widetilde overrightarrow boldsymbol")
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc",
            "sinh": "arsinh", "cosh": "arcosh", "tanh": "artanh"}  # fmt: skip


class Commands(Symbols):
    """Reads commands."""

    def _command(self, name: str) -> Node:
        if name == "frac":
            return self._nested(self._fraction)
        if name == "sqrt":
            return self._nested(self._root)
        if name == "binom":
            return self._nested(lambda: Node("fn", (self._one(), self._one()), "binom"))
        if name == "pi":
            return Node("const", (), "pi")
        if name == "infty":
            return Node("const", (), "inf")
        if name in _GREEK:
            return self._symbol_named(name)
        if name in CURRENCIES:
            return self._money(name)
        if name == "emptyset":
            return Node("set", ())
        if name in ("mathbb", "mathcal", "mathscr"):
            return self._field(self._label())
        if name == "reals":
            return self._field("R")
        if name == "overline":
            return self._overline()
        if name in ("lfloor", "lceil"):
            return self._nested(lambda: self._rounded(name))
        if name == "langle":
            return self._nested(lambda: self._bracket("langle"))
        if name in _DECORATIONS:
            return Node("sym", (), f"{name} {self._label()}")
        if name in _UNEVALUATED:
            return self._unevaluated()
        if name in ("triangle", "angle", "ell", "hbar", "square", "bigcirc", "star", "nmid"):
            return self._symbol_named(name)
        raise Unreadable(f"the command {name}")

    def _field(self, name: str) -> Node:
        """A set of numbers, perhaps its positive or negative half."""
        if name == "R" and self._is("^", "_") and not self._is_square():
            self._at += 1
            sign = self._label() if self._is("{") else self._next.text
            self._at += 0 if self._tokens[self._at - 1].text == "}" else 1
            for long, short in (
                ("geq", ">="),
                ("ge", ">="),
                ("le", "<="),
                ("ne", "!="),
                ("ast", "!=0"),
                ("cdot", "!=0"),
            ):
                sign = sign.replace(long, short)
            return Node("field", (), "R" + ("!=0" if sign == "*" else sign))
        return Node("field", (), name)

    def _is_square(self) -> bool:
        """Whether a power is a number, as in R^2."""
        return self._peek().kind == "num" or (self._peek().text == "{" and self._peek(2).kind == "num")

    def _unevaluated(self) -> Node:
        """Everything up to an equals sign is work that was not done."""
        depth = 0
        while self._next.kind != "end" and not (depth <= 0 and self._is("=")):
            depth += (self._next.text == "{") - (self._next.text == "}")
            self._at += 1
        return Node("unevaluated")

    def _one(self, *, whole_number: bool = False) -> Node:
        """One argument of a command: a group, or one sign, of a numeral one digit."""
        if self._is("{"):
            return self._group()
        token = self._next
        if token.kind == "num" and len(token.text) > 1 and not whole_number:
            self._tokens[self._at] = Token("num", token.text[1:])
            return Node("num", (), read_numeral(token.text[0]))
        if token.kind == "num":
            return self._decimal_number()
        if token.kind == "text" and token.style == "plain":
            self._tokens[self._at : self._at + 1] = [Token("sym", letter) for letter in token.text]
        if self._is("-"):
            raise Unreadable("a sign as an argument")
        return self._primary()

    def _fraction(self) -> Node:
        start = self._at
        top, bottom = self._one(), self._one()
        if _is_derivative(top, bottom, self._tokens[start : self._at]):
            return self._unevaluated()
        return Node("div", (top, bottom))

    def _root(self) -> Node:
        index = number(2)
        if self._take("["):
            index = self._sum()
            self._expect("]")
        return Node("fn", (self._one(whole_number=True), index), "root")

    def _overline(self) -> Node:
        if not self._is("{"):
            raise Unreadable("a bar over nothing")
        node = self._group()
        factors = node.args if node.op == "mul" else (node,)
        if all(factor.op == "sym" for factor in factors):
            return Node("sym", (), "overline " + "".join(factor.value for factor in factors))
        return Node("fn", (node,), "conj")

    def _rounded(self, name: str) -> Node:
        node = self._sum()
        self._expect({"lfloor": "rfloor", "lceil": "rceil"}[name])
        return Node("fn", (node,), {"lfloor": "floor", "lceil": "ceil"}[name])

    def _environment(self) -> Node:
        name = self._next.text
        self._at += 1
        rows: list[tuple[Node, ...]] = []
        row: list[Node] = []
        bars, self._bars = self._bars, 0
        while self._next.kind != "end" or self._next is END:
            if self._next is END:
                raise Unreadable("an environment that never ends")
            if self._is("newline"):
                self._at += 1
                if row:
                    rows.append(tuple(row))
                row = []
            elif self._is("&") or self._next.text in ("hline",):
                self._at += 1
            else:
                row.append(self._relation())
                if self._next.kind == "sep":
                    self._at += 1
        self._at += 1
        self._bars = bars
        if row:
            rows.append(tuple(row))
        return _environment_node(name, rows)

    def _function(self) -> Node:
        name = self._next.text
        self._at += 1
        base: Node | None = None
        power: Node | None = None
        while self._is("_", "^"):
            if self._take("_"):
                if name in ("max", "min", "gcd", "lcm"):
                    return self._unevaluated()
                base = self._one(whole_number=True)
            else:
                self._at += 1
                power = self._argument()
        if name == "log" and base is None and self._next.kind == "num" and self._peek().text == "(":
            base = None if self._next.blank else self._decimal_number()
        arguments = self._function_arguments()
        return _apply(name, arguments, base, power)

    def _is_long_text(self) -> bool:
        """Whether words come next; up to three plain letters are factors."""
        token = self._next
        return token.kind == "text" and (token.style != "plain" or len(token.text) > 3 or token.text in ENGLISH)

    def _function_arguments(self) -> tuple[Node, ...]:
        """A bracketed argument, or all factors up to the next sign or function."""
        if self._is("(", "["):
            node = self._primary()
            return node.args if node.op in ("tuple", "interval") else (node,)
        if self._is("{"):
            first = self._group()
            return (first, self._group()) if self._is("{") else (first,)
        flip = self._take("-")
        factors = [self._factor()]
        while self._starts_factor() and self._next.kind != "fn" and not self._is("(", "[") and not self._is_long_text():
            factors.append(self._factor())
        if self._is("/") and factors[-1].op != "div" and self._peek().kind == "num" and factors[0].op == "const":
            self._at += 1
            factors = [Node("div", (product(*factors), self._factor()))]
        return (negative(product(*factors)) if flip else product(*factors),)


def _is_derivative(top: Node, bottom: Node, tokens: list[Token]) -> bool:
    """d/dx, d^2/dx^2, dy/dx."""
    if any(token.text == "partial" for token in tokens):
        return True
    heads = [node.args[0] if node.op in ("mul", "pow") and node.args else node for node in (top, bottom)]
    heads = [node.args[0] if node.op == "pow" else node for node in heads]
    d = Node("sym", (), "d")
    return heads[0] == d and heads[1] == d and bottom.op == "mul"


def matrix_of(rows: list[tuple[Node, ...]]) -> Node:
    if not rows or len({len(row) for row in rows}) != 1:
        raise Unreadable("a matrix with rows of different lengths")
    return Node("matrix", tuple(entry for row in rows for entry in row), len(rows[0]))


def _environment_node(name: str, rows: list[tuple[Node, ...]]) -> Node:
    if name in ("cases", "aligned", "align", "gathered", "split", "equation", "alignedat"):
        items = tuple(entry for row in rows for entry in row)
        if not items:
            raise Unreadable("nothing to read")
        return Node("list", items, ",") if len(items) > 1 else items[0]
    matrix = matrix_of(rows)
    if name == "vmatrix":
        return Node("fn", (matrix,), "det")
    if name not in ("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array"):
        raise Unreadable(f"the environment {name}")
    return matrix


def _apply(name: str, arguments: tuple[Node, ...], base: Node | None, power: Node | None) -> Node:
    if name == "sqrt":
        return _raised(Node("fn", (arguments[0], number(2)), "root"), power)
    if name == "cbrt":
        return _raised(Node("fn", (arguments[0], number(3)), "root"), power)
    if name == "exp":
        return _raised(Node("pow", (Node("const", (), "e"), arguments[0])), power)
    if name == "cis":
        angle = _in_radians(arguments[0])
        return _raised(Node("pow", (Node("const", (), "e"), Node("mul", (Node("const", (), "i"), angle)))), power)
    if name == "lb":
        name, base = "log", number(2)
    if name == "lg":
        name, base = "log", number(10)
    if name == "factorial":
        return Node("fact", arguments)
    if name not in FUNCTIONS:
        raise Unreadable(f"the function {name}")
    arguments = tuple(_in_radians(argument) for argument in arguments)
    if base is not None:
        arguments = (*arguments, base)
    if power is not None and power.op == "neg" and _is_one(power.args[0]) and name in _INVERSE:
        return Node("fn", arguments, _INVERSE[name])
    return _raised(Node("fn", arguments, name), power)


def _is_one(node: Node) -> bool:
    return node.op == "num" and node.value.value == 1


def _raised(node: Node, power: Node | None) -> Node:
    return node if power is None else Node("pow", (node, power))


def _in_radians(node: Node) -> Node:
    """An angle without its degree signs."""
    if node.op == "unit" and node.value == DEGREE:
        return Node("div", (Node("mul", (node.args[0], Node("const", (), "pi"))), number(180)))
    return node._replace(args=tuple(_in_radians(below) for below in node.args)) if node.args else node
