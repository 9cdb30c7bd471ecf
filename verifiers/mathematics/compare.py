"""Whether two readings mean the same. Symmetric by construction: every rule treats both sides alike, except that a
bare numeral will do for a reference in percent, and that a reference may be an inequality that is not solved.

Collections are compared by matching their elements, never by sorting. What numbers are equal is decided by a judge: the
exact one here, or the numeric one of `verifiers.mathematics.algebra` that runs in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from verifiers.mathematics.inequalities import solved
from verifiers.mathematics.judge import Judge
from verifiers.mathematics.nodes import Node, negative, symbols
from verifiers.mathematics.numerals import MAX_DIGITS
from verifiers.mathematics.polynomials import Undecided, Undefined
from verifiers.mathematics.reading import Reading
from verifiers.mathematics.scalars import same_scalars
from verifiers.mathematics.values import Based, Equation, Field, Grid, Many, Nothing, Part, Ratio, Region, Scalar, Value
from verifiers.mathematics.words import same_words


def compare(gold: Reading, answer: Reading, judge: Judge) -> tuple[bool, str]:
    """Whether two readings agree, and the rule that decided. Raises `Undecided` where the judge does."""
    if answer.problem or gold.problem:
        return False, answer.problem or gold.problem
    if gold.key == answer.key:
        return True, "same_text"
    if gold.letter and answer.letter:
        return _compare_choices(gold, answer, judge)
    if gold.time and answer.time:
        return gold.time.agrees(answer.time), "time"
    if gold.date and answer.date:
        return gold.date.agrees(answer.date), "date"
    if gold.words and answer.words:
        if same_words(gold.words, answer.words):
            return True, "words"
        if not (gold.values and answer.values):
            return False, "words"
    if gold.letter_value is not None and not answer.letter and compare(gold.letter_value, answer, judge)[0]:
        return True, "choice_value"
    if answer.letter_value is not None and not gold.letter and compare(gold, answer.letter_value, judge)[0]:
        return True, "choice_value"
    return _compare_values(gold, answer, judge)


def _compare_choices(gold: Reading, answer: Reading, judge: Judge) -> tuple[bool, str]:
    is_variable = len(gold.key) == len(answer.key) == 1 and gold.key.islower() and gold.key != "c"
    if gold.letter != answer.letter or (is_variable and gold.key != answer.key):
        return False, "choice"
    if gold.letter_value is not None and answer.letter_value is not None:
        return compare(gold.letter_value, answer.letter_value, judge)[0], "choice_value"
    return True, "choice"


def _compare_values(gold: Reading, answer: Reading, judge: Judge) -> tuple[bool, str]:
    """Whether any two readings agree."""
    if gold.undecided or answer.undecided:
        raise Undecided("a chain that is not exact")
    if not answer.values:
        return False, "words" if answer.words else "unreadable"
    if not gold.values:
        return False, "words"
    undecided: Undecided | None = None
    for a, b in _pairs(gold, answer, judge):
        try:
            if same_value(a, b, judge):
                return True, _rule(a, b)
        except Undecided as error:
            undecided = error
        except Undefined:
            return False, "undefined"
    if undecided is not None:
        raise undecided
    return False, _rule(gold.values[0], answer.values[0])


def _pairs(gold: Reading, answer: Reading, judge: Judge) -> list[tuple[Value, Value]]:
    """The readings that may be compared: all with all, a decimal comma with one number, and an inequality that the
    reference leaves unsolved by its solutions."""
    pairs = list(product(gold.values, answer.values))
    if not isinstance(answer.values[0], Equation) and (region := solved(gold.values[0], judge.same)) is not None:
        pairs.append((region, answer.values[0]))
    if answer.comma is not None and isinstance(gold.values[0], Scalar):
        pairs.append((gold.values[0], answer.comma))
    if gold.comma is not None and isinstance(answer.values[0], Scalar):
        pairs.append((gold.comma, answer.values[0]))
    return pairs


def _rule(a: Value, b: Value) -> str:
    kinds = {type(value).__name__.lower() for value in (a, b)}
    if len(kinds) > 1:
        return "_against_".join(sorted(kinds))
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        if a.unit or b.unit:
            return "quantity"
        return "number" if a.node.op == b.node.op == "num" else "expression"
    return a.kind if isinstance(a, Many) else kinds.pop()


def same_value(a: Value, b: Value, judge: Judge) -> bool:
    """Whether two values are the same."""
    if isinstance(a, Nothing) or isinstance(b, Nothing):
        return False
    if _is_curve(a) or _is_curve(b):
        return _same_curves(a, b, judge)
    if not _names_agree(a.name, b.name):
        return _is_named_twice(a, b) and _same_curves(a, b, judge)
    a, b = _unwrapped(a), _unwrapped(b)
    for one, other in ((a, b), (b, a)):
        rule = _RULES.get((type(one), type(other)))
        if rule is not None:
            return rule(one, other, judge)
    return False


def _unwrapped(value: Value) -> Value:
    """A set of one value is that value."""
    if isinstance(value, Many) and len(value.items) == 1 and value.kind != "tuple":
        return value if isinstance(value.items[0], Many) else value.items[0]
    return value


def _is_named_twice(a: Value, b: Value) -> bool:
    """Two solved forms of one curve, such as y = 2x and x = y/2."""
    if not isinstance(a, Scalar) or not isinstance(b, Scalar) or "(" in a.name + b.name:
        return False
    return a.name in symbols(b.node) and b.name in symbols(a.node)


def _names_agree(a: str, b: str) -> bool:
    if not a or not b or a == b or a.startswith('"') or b.startswith('"'):
        return True
    (head_a, _, rest_a), (head_b, _, rest_b) = a.partition("("), b.partition("(")
    if "(" in a and "(" in b:
        return head_a == head_b and rest_a[:-1].isalpha() and rest_b[:-1].isalpha()
    return ("(" in a and b == "y") or ("(" in b and a == "y")


def _is_curve(value: Value) -> bool:
    return isinstance(value, Equation)


def _as_equation(value: Value) -> Equation | None:
    """`y = x + 5` as an equation of two variables; None for what has only one."""
    if isinstance(value, Equation):
        return value
    if isinstance(value, Scalar) and value.name and symbols(value.node):
        name = Node("sym", (), "y" if "(" in value.name else value.name)
        return Equation(Node("add", (name, negative(value.node))), "=", solved=True)
    return None


def _same_curves(a: Value, b: Value, judge: Judge) -> bool:
    if not judge.policy.solved_form:
        a, b = _named_equation(a), _named_equation(b)
    first, second = _as_equation(a), _as_equation(b)
    if first is None or second is None or first.op != second.op:
        return False
    if first.op == "ne":
        return judge.same_curve(first.node, second.node, directed=False)
    variables = symbols(first.node) | symbols(second.node)
    if judge.policy.solved_form and first.solved != second.solved and len(variables) < 2:
        return False
    return judge.same_curve(first.node, second.node, directed=first.op != "=")


def _named_equation(value: Value) -> Value:
    if isinstance(value, Scalar) and value.name:
        return Equation(Node("add", (Node("sym", (), value.name), negative(value.node))), "=", solved=True)
    return value


def _baseds(a: Based, b: Based, judge: Judge) -> bool:
    return (a.digits, a.base) == (b.digits, b.base)


def _based_and_scalar(a: Based, b: Scalar, judge: Judge) -> bool:
    """A base that is only dropped: the digits must be the same."""
    node, sign = (b.node.args[0], "-") if b.node.op == "neg" else (b.node, "")
    if node.op == "num" and b.unit is None:
        value = node.value.value
        return value.denominator == 1 and value.numerator.bit_length() < 4 * MAX_DIGITS and f"{sign}{value}" == a.digits
    letters = node.args if node.op == "mul" else (node,)
    if any(letter.op not in ("num", "sym", "const") for letter in letters):
        return False
    return "".join(str(part.value.value if part.op == "num" else part.value) for part in letters).upper() == a.digits


def _ratios(a: Ratio, b: Ratio, judge: Judge) -> bool:
    if len(a.parts) != len(b.parts):
        return False
    first = zip(a.parts[1:], b.parts[1:], strict=True)
    return all(judge.equal(Node("mul", (a.parts[0], y)), Node("mul", (b.parts[0], x))) for x, y in first)


def _ratio_and_scalar(a: Ratio, b: Scalar, judge: Judge) -> bool:
    return len(a.parts) == 2 and b.unit is None and judge.equal(Node("div", a.parts), b.node)


def _manys(a: Many, b: Many, judge: Judge) -> bool:
    kinds = {a.kind, b.kind}
    if kinds == {"tuple"} or kinds == {"list", "tuple"}:
        if kinds == {"list", "tuple"} and len(a.items) < 2:
            return False
        return len(a.items) == len(b.items) and all(
            same_value(x, y, judge) for x, y in zip(a.items, b.items, strict=True)
        )
    if "tuple" in kinds:
        return False
    items_a, items_b = (_distinct(v.items, judge) if v.kind == "set" else v.items for v in (a, b))
    return _match(items_a, items_b, lambda x, y: same_value(x, y, judge))


def _distinct(items: Sequence[Value], judge: Judge) -> tuple[Value, ...]:
    kept: list[Value] = []
    for item in items:
        if not any(same_value(item, other, judge) for other in kept):
            kept.append(item)
    return tuple(kept)


def _match(a: Sequence[Value], b: Sequence[Value], same: Callable[[Value, Value], bool]) -> bool:
    """Whether the elements can be paired off, by augmenting paths."""
    if len(a) != len(b):
        return False
    partners = [[at for at, y in enumerate(b) if same(x, y)] for x in a]
    owner: dict[int, int] = {}

    def place(x: int, seen: set[int]) -> bool:
        for y in partners[x]:
            if y not in seen:
                seen.add(y)
                if y not in owner or place(owner[y], seen):
                    owner[y] = x
                    return True
        return False

    return all(place(x, set()) for x in range(len(a)))


def _regions(a: Region, b: Region, judge: Judge) -> bool:
    return len(a.parts) == len(b.parts) and all(_same_part(x, y, judge) for x, y in zip(a.parts, b.parts, strict=True))


def _same_part(a: Part, b: Part, judge: Judge) -> bool:
    if (a.low_closed, a.high_closed) != (b.low_closed, b.high_closed):
        return False
    return judge.equal(a.low, b.low) and judge.equal(a.high, b.high)


def _region_and_many(a: Region, b: Many, judge: Judge) -> bool:
    """An open interval written as a pair, or isolated points written as a set or a list."""
    if b.kind == "tuple":
        low_high = [item.node for item in b.items if isinstance(item, Scalar) and item.unit is None and not item.name]
        if len(low_high) != 2 or len(b.items) != 2:
            return False
        return len(a.parts) == 1 and _same_part(a.parts[0], Part(low_high[0], False, low_high[1], False), judge)
    if any(part.low != part.high for part in a.parts) or (b.kind == "list" and b.items and not a.parts):
        return False
    return _manys(Many("set", tuple(Scalar(part.low) for part in a.parts)), b, judge)


def _region_and_scalar(a: Region, b: Scalar, judge: Judge) -> bool:
    """A single point."""
    return len(a.parts) == 1 and a.parts[0].low == a.parts[0].high and judge.equal(a.parts[0].low, b.node)


def _grids(a: Grid, b: Grid, judge: Judge) -> bool:
    return (a.columns, len(a.entries)) == (b.columns, len(b.entries)) and all(
        judge.equal(x, y) for x, y in zip(a.entries, b.entries, strict=True)
    )


def _grid_and_many(a: Grid, b: Many, judge: Judge) -> bool:
    """A column or a row against its coordinates."""
    if (
        b.kind == "set"
        or len(a.entries) not in (a.columns, len(a.entries) // a.columns)
        or len(a.entries) != len(b.items)
    ):
        return False
    return all(same_value(Scalar(x), y, judge) for x, y in zip(a.entries, b.items, strict=True))


def _fields(a: Field, b: Field, judge: Judge) -> bool:
    return a.node == b.node


_RULES: dict[tuple[type, type], Callable[..., bool]] = {
    (Scalar, Scalar): same_scalars,
    (Based, Based): _baseds,
    (Based, Scalar): _based_and_scalar,
    (Ratio, Ratio): _ratios,
    (Ratio, Scalar): _ratio_and_scalar,
    (Many, Many): _manys,
    (Region, Region): _regions,
    (Region, Many): _region_and_many,
    (Region, Scalar): _region_and_scalar,
    (Grid, Grid): _grids,
    (Grid, Many): _grid_and_many,
    (Field, Field): _fields,
}
