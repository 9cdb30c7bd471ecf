r"""What an expression is: a number, a list, a point, a region of numbers, a matrix, an equation, a ratio.

`interpret` turns a tree into one of these values. Solved forms become what they solve for, with a name: `x = 11` is 11
named x, `-1 < x \le 4` is the interval (-1, 4] named x. Unsolved ones stay equations and inequalities.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from verifiers.mathematics.evaluate import approximate
from verifiers.mathematics.labels import name_of, with_bound_names
from verifiers.mathematics.nodes import Node, has, negative, number, symbols
from verifiers.mathematics.regions import Regions
from verifiers.mathematics.rounding import decimals_of, roughly
from verifiers.mathematics.signs import expanded
from verifiers.mathematics.values import (
    INFINITY,
    MINUS_INFINITY,
    REALS,
    Based,
    Equation,
    Field,
    Grid,
    Many,
    Nothing,
    Part,
    Ratio,
    Region,
    Same,
    Scalar,
    Value,
)

MAX_ITEMS = 200
_FORWARD, _BACKWARD = {"<": False, "le": True}, {">": False, "ge": True}


def interpret(node: Node, same: Same) -> Value:
    """The value of a tree. `same` decides whether a chain such as 3 + 4 = 7 is consistent."""
    if has(node, "pm", "mp"):
        node = expanded(node)
    return _Interpreter(same).value(node)


class _Interpreter:
    """Reads values off trees, with one notion of equality."""

    def __init__(self, same: Same) -> None:
        self._same = same
        self._regions = Regions(same)

    def value(self, node: Node) -> Value:
        rule = getattr(self, f"_{node.op}", None)
        if rule is not None:
            return rule(node)
        if has(node, "unevaluated"):
            return Nothing("unevaluated")
        if has(node, "matrix"):
            return _matrix_value(node)
        if has(
            node, "list", "set", "tuple", "interval", "rel", "field", "cup", "builder", "empty", "bracketed", "text"
        ):
            return self._set_difference(node)
        return _scalar(node)

    # Collections

    def _list(self, node: Node) -> Value:
        node = with_bound_names(node)
        items: list[Value] = []
        for argument in node.args:
            value = self.value(argument)
            items.extend(value.items if isinstance(value, Many) and value.kind == "list" else (value,))
        items = _without_qualifiers(node, items)
        if len(items) > MAX_ITEMS:
            return Nothing("too_many_items")
        for item in items:
            if isinstance(item, Nothing):
                return item
        if len(items) == 1:
            return items[0]
        regions = [item for item in items if isinstance(item, Region)]
        if len(regions) == len(items):
            return self._joined_regions(regions, node.value)
        if regions and node.args[0].op == "rel" and node.args[0].value == ("ne",):
            return self._without_points(regions[0], items[1:])
        return Many("list", tuple(items))

    def _joined_regions(self, regions: list[Region], joint: str) -> Value:
        named = any(region.name for region in regions)
        if not named and joint == ",":
            return Many("list", tuple(regions))
        if len({region.name for region in regions if region.name}) > 1:
            return Many("list", tuple(regions))
        name = next((region.name for region in regions if region.name), "")
        union = self._regions.union(regions)
        if isinstance(union, Region) and joint != "or" and len(union.parts) < sum(len(r.parts) for r in regions):
            union = self._regions.intersection(regions)
        return replace(union, name=name)

    def _without_points(self, region: Region, others: list[Value]) -> Value:
        points = [item.node for item in others if isinstance(item, Scalar)]
        if len(points) != len(others):
            return Nothing("strange_list")
        return replace(self._regions.difference(region, [Part(p, True, p, True) for p in points]), name=region.name)

    def _set(self, node: Node) -> Value:
        items: list[Value] = []
        for argument in node.args:
            value = self.value(argument)
            items.extend(value.items if isinstance(value, Many) and value.kind == "list" else (value,))
        bad = next((item for item in items if isinstance(item, Nothing)), None)
        return bad or (Nothing("too_many_items") if len(items) > MAX_ITEMS else Many("set", tuple(items)))

    def _tuple(self, node: Node) -> Value:
        items = tuple(self.value(argument) for argument in node.args)
        bad = next((item for item in items if isinstance(item, Nothing)), None)
        return bad or Many("tuple", items)

    def _bracketed(self, node: Node) -> Value:
        value = self._tuple(node)
        return replace(value, kind="list") if isinstance(value, Many) else value

    def _ratio(self, node: Node) -> Value:
        if len(node.args) == 2 and approximate(node.args[1]) == 0.0:
            return Nothing("undefined")
        return Ratio(node.args)

    def _based(self, node: Node) -> Value:
        return Based(*node.value)

    def _matrix(self, node: Node) -> Value:
        return _matrix_value(node)

    def _unevaluated(self, node: Node) -> Value:
        return Nothing("unevaluated")

    def _empty(self, node: Node) -> Value:
        return Nothing("empty")

    # Regions

    def _field(self, node: Node) -> Value:
        zero = number(0)
        halves = {
            "R+": Part(zero, False, INFINITY, False), "R>0": Part(zero, False, INFINITY, False),
            "R>=0": Part(zero, True, INFINITY, False), "R-": Part(MINUS_INFINITY, False, zero, False),
            "R<0": Part(MINUS_INFINITY, False, zero, False), "R<=0": Part(MINUS_INFINITY, False, zero, True),
        }  # fmt: skip
        if node.value == "R!=0":
            return self._regions.difference(REALS, [Part(zero, True, zero, True)])
        half = halves.get(node.value)
        return Region((half,)) if half is not None else REALS if node.value == "R" else Field(node)

    def _interval(self, node: Node) -> Value:
        low, high = node.args
        return self._regions.interval(low, node.value[0], high, node.value[1])

    def _cup(self, node: Node) -> Value:
        values = [self.value(argument) for argument in node.args]
        regions = [self._regions.as_region(value) for value in values]
        if None not in regions:
            return self._regions.union([region for region in regions if region is not None])
        if all(isinstance(value, Many) and value.kind == "set" for value in values):
            return Many("set", tuple(item for value in values for item in value.items))  # ty: ignore
        return Nothing("strange_union")

    def _cap(self, node: Node) -> Value:
        regions = [self._regions.as_region(self.value(argument)) for argument in node.args]
        if None in regions:
            return Nothing("strange_intersection")
        return self._regions.intersection([region for region in regions if region is not None])

    def _minus(self, node: Node) -> Value:
        values = [self.value(argument) for argument in node.args]
        if isinstance(values[0], Scalar) and values[0].node == Node("sym", (), "R"):
            values[0] = REALS
        if isinstance(values[1], Scalar):
            values[1] = Many("set", (values[1],))
        if isinstance(values[0], Field):
            return Field(node)
        first, second = self._regions.as_region(values[0]), self._regions.as_region(values[1])
        if first is None or second is None:
            return Nothing("strange_difference")
        return self._regions.difference(first, list(second.parts))

    def _set_difference(self, node: Node) -> Value:
        """`\\mathbb{R} - \\{0\\}` reads as a sum."""
        if node.op == "add" and len(node.args) == 2 and node.args[1].op == "neg":
            return self._minus(Node("minus", (node.args[0], node.args[1].args[0])))
        return Nothing("strange_expression")

    def _builder(self, node: Node) -> Value:
        """{x | x > 2}, {x \\in R : x \\ne 0}."""
        element, condition = node.args
        value = self.value(condition)
        if element.op == "rel" and element.value == ("in",):
            domain = self._regions.as_region(self.value(element.args[1]))
            region = self._regions.as_region(value)
            if domain is None or region is None:
                return Nothing("strange_set")
            value, element = self._regions.intersection([domain, region]), element.args[0]
        if isinstance(value, Region):
            return replace(value, name="")
        if isinstance(value, Scalar) and value.name and element == Node("sym", (), value.name):
            return Many("set", (replace(value, name=""),))
        if isinstance(value, Many) and value.kind == "list":
            return replace(value, kind="set")
        return Nothing("strange_set")

    # Relations

    def _rel(self, node: Node) -> Value:
        sides, operators = node.args, node.value
        if any(op == "approx" for op in operators):
            first = operators.index("approx")
            if not all(roughly(a, b) for a, b in pairwise(sides[first:])):
                return Nothing("inconsistent")
            if first == 0 and not name_of(sides[0]):
                is_rounded = decimals_of(sides[0]) is not None and decimals_of(sides[1]) is None
                return self.value(sides[1] if is_rounded and len(sides) == 2 else sides[0])
            cut = max(first, 1)
            kept = Node("rel", sides[: cut + 1], tuple("=" if op == "approx" else op for op in operators[:cut]))
            return self._rel(kept) if first == 0 else self._rel(Node("rel", sides[: first + 1], operators[:first]))
        if operators == ("in",):
            return self._membership(*sides)
        if operators == ("ne",):
            return self._unequal(*sides)
        if all(op in ("=", "equiv") for op in operators):
            return self._equality(sides)
        if all(op in _FORWARD for op in operators):
            return self._inequality(sides, [_FORWARD[op] for op in operators])
        if all(op in _BACKWARD for op in operators):
            return self._inequality(sides[::-1], [_BACKWARD[op] for op in operators][::-1])
        return Nothing("strange_relation")

    def _membership(self, element: Node, container: Node) -> Value:
        value = self.value(container)
        name = name_of(element)
        if not name and element.op not in ("empty", "tuple"):
            return Nothing("unsolved")
        region = self._regions.as_region(value) if not (isinstance(value, Many) and value.kind == "set") else None
        return replace(value if region is None else region, name=name)

    def _unequal(self, left: Node, right: Node) -> Value:
        for one, other in ((left, right), (right, left)):
            name = name_of(one)
            if (name or one.op == "empty") and approximate(other) is not None:
                point = Part(other, True, other, True)
                return replace(self._regions.difference(REALS, [point]), name=name)
        return Equation(Node("add", (left, negative(right))), "ne")

    def _equality(self, sides: tuple[Node, ...]) -> Value:
        for first, rest in ((sides[0], sides[1:]), (sides[-1], sides[:-1])):
            name = name_of(first)
            if name and not (symbols(first) & frozenset(s for side in rest for s in symbols(side))):
                if any(not self._same(a, b) for a, b in pairwise(rest)):
                    if any(symbols(side) for side in rest):  # x = y = z
                        break
                    return Nothing("inconsistent")
                value = self.value(rest[-1])
                return value if value.name else replace(value, name=name)
            if first.op == "call" and name and len(rest) == 1:  # f(x) = x + 5
                return replace(self.value(rest[0]), name=name)
        if has(sides[0], "unevaluated") and not has(sides[-1], "unevaluated"):  # an integral with its value
            return self.value(sides[-1])
        if sides[0].op == "tuple" and len(sides) == 2:
            return self._assignments(*sides)
        if has(Node("", sides), "tuple", "list", "set", "interval", "field"):
            values = [self.value(side) for side in sides]
            return values[-1] if all(value == values[0] for value in values) else Nothing("strange_equation")
        if not any(symbols(side) or has(side, "call", "text") for side in sides):
            if any(not self._same(a, b) for a, b in pairwise(sides)):
                return Nothing("inconsistent")
            return self.value(sides[-1])
        if has(Node("", sides), "unevaluated", "matrix"):
            return Nothing("unevaluated")
        items = tuple(Equation(Node("add", (a, negative(b))), "=") for a, b in pairwise(sides))
        return items[0] if len(items) == 1 else Many("list", items)

    def _assignments(self, left: Node, right: Node) -> Value:
        """(x, y) = (1, 2)."""
        value = self.value(right)
        labels = [name_of(side) for side in left.args]
        if not all(labels) or not isinstance(value, Many) or len(value.items) != len(labels):
            return Nothing("strange_equation")
        return replace(value, items=tuple(replace(v, name=n) for v, n in zip(value.items, labels, strict=True)))

    def _inequality(self, sides: tuple[Node, ...], closed: list[bool]) -> Value:
        """Ascending sides. Solved when one side is a lone variable between constants."""
        if len(sides) == 2:
            for at in (0, 1):
                name, other = name_of(sides[at]), sides[1 - at]
                if (name or sides[at].op == "empty") and not symbols(other) and not has(other, "call"):
                    low = (MINUS_INFINITY, False, other, closed[0]) if at == 0 else (other, closed[0], INFINITY, False)
                    return replace(self._regions.interval(*low), name=name)
        if len(sides) == 3 and (name := name_of(sides[1])) and not (symbols(sides[1]) & symbols(Node("", sides[::2]))):
            return replace(self._regions.interval(sides[0], closed[0], sides[2], closed[1]), name=name)
        pairs = zip(sides, sides[1:], closed, strict=False)
        items = tuple(
            Equation(Node("add", (a, negative(b))), "le" if is_closed else "<", bool(name_of(a) or name_of(b)))
            for a, b, is_closed in pairs
        )
        constant = not any(symbols(side) or has(side, "call") for side in sides)
        return Nothing("statement") if constant else items[0] if len(items) == 1 else Many("list", items)


def _without_qualifiers(node: Node, items: list[Value]) -> list[Value]:
    """A list without what only tells what a letter is: `k \\in \\mathbb{Z}`."""
    kept = [
        item
        for argument, item in zip(node.args, items, strict=False)
        if not (argument.op == "rel" and argument.value == ("in",) and argument.args[1].op == "field")
    ]
    return kept if len(node.args) == len(items) and kept and len(kept) < len(items) else items


def _scalar(node: Node) -> Value:
    """An expression with its unit, the unit of a whole sum or product included."""
    if node.op == "unit":
        inner = node.args[0]
        return Scalar(inner, node.value) if not has(inner, "unit") else Nothing("strange_unit")
    if node.op == "neg" and node.args[0].op == "based":
        digits, base = node.args[0].value
        return Based("-" + digits, base)
    if has(node, "based"):
        return Nothing("strange_base")
    return Scalar(node)


def _matrix_value(node: Node) -> Value:
    """Scalars, sums, transposes and determinants of matrices worked out."""
    from verifiers.mathematics.matrices import NotAMatrix, work_out

    try:
        result = work_out(node)
    except NotAMatrix as error:
        return Nothing(str(error))
    return Grid(result.value, result.args) if result.op == "matrix" else _scalar(result)
