"""Everything that a text may mean. Both sides of a comparison are read by the same code, and readings are cached.

A text can have several readings: `1,500` is a number or a list, `10:15` a time or a ratio, `B` a letter or a variable.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from verifiers.mathematics.exact import exact_quotient, exactly_same
from verifiers.mathematics.guards import MAX_LENGTH, brace_problem, hedges, is_program
from verifiers.mathematics.nodes import Node, Numeral, has, show, walk
from verifiers.mathematics.normal import normalise
from verifiers.mathematics.numerals import whole_number
from verifiers.mathematics.parser import parse
from verifiers.mathematics.polynomials import Undecided, Undefined
from verifiers.mathematics.rewriting import peeled, prepared
from verifiers.mathematics.structure import interpret
from verifiers.mathematics.tokens import FUNCTIONS, Refused, Unreadable
from verifiers.mathematics.units import find_unit
from verifiers.mathematics.values import Based, Equation, Field, Grid, Many, Nothing, Ratio, Region, Same, Scalar, Value
from verifiers.mathematics.words import (
    AS_MATHEMATICS,
    SHORT_WORDS,
    Date,
    Time,
    choice_of,
    date_of,
    names_a_month,
    number_in_words,
    time_of,
    unwrapped,
    without_introduction,
    without_qualifier,
    words_of,
)

MAX_FORM = 200
"""Characters of a normal form that is shown."""
_RECURSION = (RecursionError, MemoryError)

_MAX_CACHED = 1000
"""Characters of a text whose reading is kept."""
_SHORT = 200
"""Characters of a text whose outer brackets are left as they are."""
_MAX_NUMERAL = 140_000
"""Characters of a whole number."""
_PLAIN_INTEGER = re.compile(r"-?[0-9]+")
_LONG_GROUPED = re.compile(r"-?[0-9]{1,3}(?:,[0-9]{3})+")
_GROUPED = re.compile(r"(?<![\d.,_^])(?<!\d )[1-9]\d{0,2}(?:(?:,\d{3})+(?![\d]|,\d)|(?: \d{3})+(?!\d| ?\d| ?[/,]\d))")
_DECIMAL_COMMA = re.compile(
    r"([-+]?\s*(?:\\\$|\\[a-z]+ )?\s*(?:\d+|[1-9]\d{0,2}(?: \d{3})+)),(\d{1,2}|\d{4,}|(?<=\b0,)\d{3})"
    r"(?!\d|,\d)(?P<rest>.*)"
)
_NEGATIVE = re.compile(r"\b(?:negative|minus) (?=[\d\\])", re.IGNORECASE)
_LEADING_WORDS = re.compile(r"(?:(?:[A-Za-z][A-Za-z'-]+|[aAI])[,:]?(?:\s+|$))+")
_TRAILING_WORDS = re.compile(r"(?:[\s,;]+(?:[A-Za-z][A-Za-z'-]+|a|I))+[.,;]?$")
_NO_VALUE = frozenset({"nan", "null", "undefined form", "n/a", "na", "unknown", "none of these"})


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text may mean. `key` is the text in one spelling; `problem` says why it matches nothing."""

    key: str
    values: tuple[Value, ...] = ()
    comma: Value | None = None
    """The number that it is if its comma is a decimal one; only for comparison with one number."""
    words: str = ""
    letter: str = ""
    letter_value: Reading | None = None
    time: Time | None = None
    date: Date | None = None
    problem: str = ""
    undecided: bool = False
    """Whether reading it takes more than exact arithmetic."""

    @property
    def is_readable(self) -> bool:
        return not self.problem and bool(
            self.values or self.undecided or self.words or self.letter or self.time or self.date
        )

    @property
    def form(self) -> str:
        """A normal form for people."""
        text = describe(self.values[0]) if self.values else self.words or self.letter or self.key
        return text if len(text) <= MAX_FORM else text[: MAX_FORM - 1] + "…"


def read(text: str, same: Same = exactly_same) -> Reading:
    """The readings of a text. `same` compares the numbers of a chain such as 3 + 4 = 7."""
    return _cached(text, same) if len(text) <= _MAX_CACHED else _read_text(text, same)


def _read_text(text: str, same: Same) -> Reading:
    if len(text) > _SHORT:
        text = peeled(text)
    if len(text) > MAX_LENGTH:
        return _long_numeral(text) or Reading(text[:80], problem="too_long")
    key = normalise(text)
    if _PLAIN_INTEGER.fullmatch(key):
        return Reading(key, (Scalar(Node("num", (), Numeral(Fraction(whole_number(key))))),))
    if not key:
        return Reading(key, problem="empty")
    if is_program(key):
        return Reading(key, problem="program_text")
    if problem := brace_problem(key):
        return Reading(key, problem=problem)
    try:
        return _read(key, same)
    except _RECURSION:
        return Reading(key, problem="nested_too_deeply")


_cached = lru_cache(maxsize=8192)(_read_text)


def _long_numeral(text: str) -> Reading | None:
    """A whole number with more digits than other texts may have characters."""
    digits = text.strip(" $.\n").replace(",", "") if len(text) <= _MAX_NUMERAL else ""
    if not _PLAIN_INTEGER.fullmatch(digits) or ("," in text and not _LONG_GROUPED.fullmatch(text.strip(" $.\n"))):
        return None
    return Reading(digits, (Scalar(Node("num", (), Numeral(Fraction(whole_number(digits))))),))


def _read(key: str, same: Same) -> Reading:
    plain = without_introduction(without_qualifier(unwrapped(key).replace("newline", " ")))
    bare = plain[1:-1].strip() if plain[:1] == "{" and plain.find("}") == len(plain) - 1 else plain
    named = words_of(bare)
    if named in _NO_VALUE:
        return Reading(key, problem="no_value")
    letter, value_text = choice_of(bare)
    comma = None
    try:
        values, problem = _values(key, plain, named, same)
        comma = _decimal_comma(key, same) if values else None
        undecided = False
    except Undecided:
        values, problem, undecided = (), "", True
    time, date = time_of(bare), date_of(bare)
    if time is not None and ":0" in bare.replace(" ", ""):  # 3:03 is no ratio
        values = ()
    if problem and not values and not (time or date):
        return Reading(key, problem=problem)
    return Reading(
        key,
        values=values,
        comma=comma,
        words=named,
        letter=letter,
        letter_value=read(value_text, same) if value_text and value_text != key else None,
        time=time,
        date=date,
        undecided=undecided,
    )


def _values(key: str, plain: str, named: str, same: Same) -> tuple[tuple[Value, ...], str]:
    """The mathematical readings, and why there is none where the text is mathematics without a value."""
    if names_a_month(plain):
        return (), ""
    if named:
        if named in AS_MATHEMATICS:
            return (interpret(parse(AS_MATHEMATICS[named]), same),), ""
        number = number_in_words(named)
        if number is not None:
            return (Scalar(parse(str(number))),), ""
        if named.replace(" ", "") in SHORT_WORDS or (len(key) > 1 and key.istitle() and key.isalpha()):
            return (), ""
    found: list[Value] = []
    problem = ""
    for text in _variants(plain if key.endswith(")") and not plain.endswith(")") else key):
        value = _value(text, same)
        if isinstance(value, Nothing):
            problem = problem or value.why
        elif value is not None and value not in found:
            found.append(value)
    if not found and not problem and plain != key:
        value = _value(prepared(plain), same)
        if value is not None and not isinstance(value, Nothing):
            found.append(value)
    if not found and not problem:
        shorter = _without_prose(plain)
        value = _value(prepared(shorter), same) if shorter else None
        if isinstance(value, Scalar) and _is_plain_number(value.node):
            found.append(value)
    return tuple(found), problem


def _is_plain_number(node: Node) -> bool:
    """Whether an expression is a number as people write it in a sentence, and no calculation."""
    below = list(walk(node))
    return all(
        part.op in ("num", "neg", "div", "const", "mul") or (part.op, part.value) == ("fn", "root") for part in below
    ) and (not any(part.op == "mul" and sum(factor.op == "num" for factor in part.args) > 1 for part in below))


def _variants(key: str) -> list[str]:
    """The text with its digit groups joined, and in brackets also with every comma a separator."""
    key = prepared(key)
    grouped = _grouped(key)
    variants = [grouped]
    if grouped != key and "," in key and key[0] in "([\\{" and not re.search(r",0\d\d", key):
        variants.append(key)
    return variants


def _decimal_comma(key: str, same: Same) -> Value | None:
    """The number that the text is when its comma is a decimal one, as in `1,75`."""
    decimal = _DECIMAL_COMMA.fullmatch(key) if "," in key else None
    if decimal is None or re.search(r"\d\s*,|,\s*\d", decimal["rest"]):
        return None
    value = _value(f"{_grouped(decimal[1])}.{decimal[2]}{decimal['rest']}", same)
    return value if isinstance(value, Scalar) else None


def _grouped(text: str) -> str:
    return _GROUPED.sub(lambda group: group[0].replace(",", "").replace(" ", ""), text)


def _value(text: str, same: Same) -> Value | None:
    """The value of one variant; None when it cannot be read."""
    try:
        node = parse(text)
    except Refused as error:
        return Nothing(str(error))
    except Unreadable:
        return None
    except (ValueError, IndexError, KeyError, AttributeError, TypeError):
        return None
    try:
        value = interpret(node, same)
        _check_defined(value)
    except Undefined:
        return Nothing("undefined")
    return value


def _check_defined(value: Value) -> None:
    """Raises `Undefined` for a value that is, or holds, a quotient by zero."""
    if isinstance(value, Many):
        for item in value.items:
            _check_defined(item)
    if isinstance(value, Scalar) and has(value.node, "div", "pow", "fn"):
        try:
            exact_quotient(value.node)
        except Undecided:
            return


def _without_prose(plain: str) -> str:
    """The one piece of mathematics in a sentence, "" when there is none or the words make it a bound or a guess."""
    text = _NEGATIVE.sub("-", plain)
    if hedges(text) or text.endswith("..."):
        return ""
    leading = _LEADING_WORDS.match(text)
    if leading and not any(word.strip(",:") in FUNCTIONS for word in leading[0].split()):
        text = text[leading.end() :].strip()
    if not text or not re.search(r"\d|\\", text):
        return ""
    trailing = _TRAILING_WORDS.search(text)
    if trailing and find_unit(trailing[0].split()[0].strip(",;")) is None:
        text = text[: trailing.start()].strip()
    return text.strip(" .,;:")


def describe(value: Value) -> str:
    """A value as a short text."""
    if isinstance(value, Scalar):
        text = show(value.node)
        if value.unit is not None:
            text += " [" + " ".join(f"{name}^{power}" for name, power in value.unit.dimensions) + "]"
    elif isinstance(value, Many):
        text = f"{value.kind}({', '.join(describe(item) for item in value.items)})"
    else:
        text = type(value).__name__.lower() + _parts(value)
    return f"{value.name} = {text}" if value.name else text


def _parts(value: Value) -> str:
    if isinstance(value, Region):
        return " ∪ ".join(
            f"{'[' if p.low_closed else '('}{show(p.low)}, {show(p.high)}{']' if p.high_closed else ')'}"
            for p in value.parts
        )
    if isinstance(value, Grid):
        return f"[{value.columns}]({', '.join(map(show, value.entries))})"
    if isinstance(value, Equation):
        return f"({show(value.node)} {value.op} 0)"
    if isinstance(value, Based):
        return f"({value.digits}, base {value.base})"
    if isinstance(value, Ratio):
        return f"({', '.join(map(show, value.parts))})"
    return f"({show(value.node)})" if isinstance(value, Field) else ""
