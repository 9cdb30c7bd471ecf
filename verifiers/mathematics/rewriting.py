"""A text rewritten before it is parsed: no outer brackets, repeating decimals as fractions, bases as subscripts."""

from __future__ import annotations

import re
from fractions import Fraction

_OPENING = re.compile(r"\s*(?:\\left\s*)?\(|\s*(?:\\(?:text|mathrm|mathbf)\s*)?\{")
_BRACKET = re.compile(r"[(){}\[\]]")
_REPEATING = re.compile(
    r"(?<![\d.])(?P<whole>\d*)\.(?P<fixed>\d*)(?:"
    r"\\(?:overline|bar|dot|overbar|widebar|underline)\s*(?:\{\s*(?P<bar>\d+)\s*\}|(?P<digit>\d))"
    r"(?:(?P<middle>\d*)\\dot\s*(?:\{\s*(?P<last>\d)\s*\}|(?P<last2>\d)))?"
    r"|\(\s*(?P<paren>\d+)\s*\)"
    r"|(?P<dots>\s*(?:\\(?:ldots|dots|cdots|dotsc|dotso)(?![A-Za-z])|\.\.\.+)))"
)
_BASE_WORDS = re.compile(r"^(\(?[0-9A-Z]+\)?),? *(?:\\text\s*\{)? *\(?(?:in )?base[- ]*\}? *(\w+)\)?\s*\}?$")
_BASE_LABEL = re.compile(r"_\s*\{\s*\\(?:text|mathrm)\s*\{\s*(?:base)?\s*(\w*)\s*\}\s*(\d*)\s*\}")
_MONEY_WORDS = re.compile(r"^(?:US|U\.S\.|USD) ?(?=\\\$|\d)")
_ORDINAL = re.compile(
    r"((?<!1)1(?=\D*st)|(?<!1)2(?=\D*nd)|(?<!1)3(?=\D*rd)|\d(?=\D*th))\s*(?:\^\s*\{?\s*)?"
    r"(?:\\(?:text|mathrm|textsuperscript)\s*\{\s*)?(?:st|nd|rd|th)\b\s*\}?\s*\}?"
)


def peeled(text: str) -> str:
    """Without all but the innermost of the brackets that stand around a whole text, so that they cost nothing."""
    start, end, last = 0, len(text), (0, len(text))
    while opening := _OPENING.match(text, start):
        while text[end - 1 : end].isspace():
            end -= 1
        if text[end - 1 : end] != {"(": ")", "{": "}"}[opening[0][-1]]:
            break
        last = (start, end)
        start, end = opening.end(), end - 1
    return text if _BRACKET.search(text, start, end) else text[last[0] : last[1]]


def prepared(key: str) -> str:
    """With repeating decimals as fractions and bases as subscripts."""
    if "base" in key:
        key = _BASE_LABEL.sub(r"_{\1\2}", key)
        key = _BASE_WORDS.sub(r"\1_{\2}", key)
    elif "_" in key:
        key = _BASE_LABEL.sub(r"_{\1\2}", key)
    if key[:1] == "U":
        key = _MONEY_WORDS.sub(lambda word: "" if key[word.end()] == "\\" else r"\$", key)
    if "." in key:
        key = _REPEATING.sub(_repeating, key)
    return _ORDINAL.sub(r"\1", key) if key[-1:] in "}htdT" else key


def _repeating(match: re.Match[str]) -> str:
    """A repeating decimal as a fraction in lowest terms, a cut one as it stands."""
    whole, fixed = match["whole"] or "0", match["fixed"]
    if match["dots"] is not None:
        fixed, period = _period(fixed)
        if not period:
            return f"{whole}.{fixed}"
    elif match["last"] or match["last2"]:
        period = (match["bar"] or match["digit"]) + match["middle"] + (match["last"] or match["last2"])
    else:
        period = match["bar"] or match["digit"] or match["paren"]
    shift = 10 ** len(fixed)
    value = Fraction(int(whole + fixed), shift) + Fraction(int(period), shift * (10 ** len(period) - 1))
    return f"{{\\frac{{{value.numerator}}}{{{value.denominator}}}}}"


def _period(digits: str) -> tuple[str, str]:
    """The digits before the shortest period that is shown at least twice at the end (one digit: three times)."""
    for length in range(1, len(digits) // 2 + 1):
        period = digits[-length:]
        count = 1
        while digits.endswith(period * (count + 1)):
            count += 1
        if count >= (3 if length == 1 else 2) or (length == 1 and count == 2 and len(digits) <= 3):
            return digits[: len(digits) - length * count], period
    return digits, ""
