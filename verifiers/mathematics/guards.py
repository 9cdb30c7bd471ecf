"""Texts that are refused before anybody tries to read them: programs, monsters, and words that hedge."""

from __future__ import annotations

import re

MAX_LENGTH = 6000
"""Characters of an answer; a longer one is no final answer."""

MAX_BRACES = 120
"""Braces in each other."""
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_PROGRAM = re.compile(
    r"__|(?<!\\)\b(?:lambda|import|exec|eval|getattr|setattr|globals|subprocess|builtins)\b"
    r"|\b(?:open|print|input|compile|system|range|sum|int|float|str|len|list|dict|set|tuple|map|filter|any|all|"
    r"Integer|Rational|Symbol|symbols|Float|sympify|solve|simplify|parse|Function|type|object|vars|chr|ord|bool)\s*\("
    r"|\b(?:max|min)\s*\(\s*[\[{]|[A-Za-z_]\w*\.[A-Za-z_]\w*\s*\(|\b(?:os|sys|np|sp|sympy|math)\.[a-z]"
    r"|\\(?:def|gdef|edef|xdef|newcommand|renewcommand|providecommand|DeclareMathOperator|let|futurelet|input|include|"
    r"write|openout|openin|read|catcode|csname|immediate|special|loop|usepackage|href|url|directlua|expandafter)"
    r"(?![A-Za-z])"
    r"|:=|\bif\b.*\belse\b|\bfor \w+ in\b|\b(?:return|yield|while|assert)\b|\$\(|`",
    re.DOTALL,
)
_HEDGE = re.compile(
    r"\b(?:not|or|either|neither|between|least|most|more|less|fewer|greater|smaller|larger|bigger|than|maybe|perhaps|"
    r"possibly|probably|might|could|under|over|below|above|within|except|without|if|unless|wrong|incorrect|correct|"
    r"grader?|any|anything|every|everything|all|whatever|reference|gold|truth|expected|solution|true|false|never|some|"
    r"something|up|upto|range|ranges|from|only|instead|choose|guess|same|equal|accept|exceeds?|close|near|almost|nearly|unlikely|improbably|doubtful(?:ly)?|untrue|invalid|dubious|nowhere|far|opposed|rejected|ish)\b|\?",
    re.IGNORECASE,
)


CHANGES_VALUE = re.compile(
    r"\b(?:twice|thrice|double|triple|half|third|quarter|squared?|cubed?|roots?|minus|negative|plus|times|factorial|divided|"
    r"divisible|divides|multiples?|powers?|cannot|can't|isn't|impossible|inverse|reciprocal|logarithm|modulo|opposite|sum|"
    r"product|difference|quotient|factors?|digits?|remainder|per cent of|percent of|no|none|hardly|nothing|neither|nor|"
    r"increased|decreased|raised|added|subtracted|multiplied|mod|base|to the|followed|repeating|excluding|including|"
    r"congruent|approaches|tends|beyond|before|after|until)\b",
    re.IGNORECASE,
)
"""Words that make something else of the number beside them."""


def is_program(text: str) -> bool:
    """Whether a text holds calls, attributes, keywords or macro definitions."""
    return _PROGRAM.search(text) is not None


def hedges(text: str) -> bool:
    """Whether words around a number make it something else, a bound, a guess or a claim about the grading."""
    return _HEDGE.search(text) is not None or CHANGES_VALUE.search(text) is not None


def brace_problem(text: str) -> str:
    """Why the braces of a text cannot be read, "" where they can: they must close in order, not too deep.

    Other brackets may be unequal, as in an interval.
    """
    depth = 0
    for brace in _BRACE.finditer(text):
        depth += brace[0] == "{"
        depth -= brace[0] == "}"
        if depth < 0:
            return "unbalanced"
        if depth > MAX_BRACES:
            return "nested_too_deeply"
    return "unbalanced" if depth else ""
