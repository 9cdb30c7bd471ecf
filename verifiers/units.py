"""The unit before or behind a number: `\\$18`, `45\\%`, `90^\\circ`, `52_8`, `15 \\text{ cm}^2`, `15 square inches`.

A single letter glued to a number (`8d`) is a variable, not a unit.
"""

from __future__ import annotations

import re

_CURRENCY = re.compile(r"([-+]?)\s*(?:\\?(\$|£|€)|\\(pounds|euro))\s*")
_BASE = re.compile(r"(?P<rest>.*\d)\s*_\s*\{?\s*(?P<base>\d{1,2})\s*\}?")
_SUFFIXES = (
    (re.compile(r"(?P<rest>.*?)\s*(?:\\?%|\bpercent|\\text\s*\{\s*(?:percent|\\?%)\s*\})"), "%"),
    (re.compile(r"(?P<rest>.*?)\s*(?:\^\s*\{?\s*\\circ\s*\}?|°|\\degree)"), "degree"),
    (
        re.compile(
            r"(?P<rest>.*?)\s*\\(?:text|mbox|mathrm|textrm|textbf)\s*\{(?P<unit>[^{}]*)\}\s*(?P<power>\^\s*\{?\s*[23]\s*\}?)?"
        ),
        "",
    ),
    (
        re.compile(
            r"(?P<rest>(?:[^A-Za-z\\]|\\(?:[dt]?frac|sqrt|pi)(?![A-Za-z]))*[\d}])\s+"
            r"(?P<unit>[A-Za-z][A-Za-z ./]*)(?P<power>\^\{?[23]\}?)?"
        ),
        "",
    ),
)
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")
_NO_UNIT = re.compile(
    r"\d|\b(?:or|and|to|plus|minus|times|over|not|hundred|thousand|million|billion|trillion|dozen|half|pi|sqrt)\b",
    re.IGNORECASE,
)
_POWER_WORDS = (("square ", "^2"), ("sq ", "^2"), ("cubic ", "^3"), ("cu ", "^3"))
_SPELLINGS = {
    "$": ("dollar", "usd"),
    "£": ("pounds", "gbp"),
    "€": ("euro", "eur"),
    "degree": ("deg",),
    "inch": ("in", "inche"),
    "foot": ("ft", "feet"),
    "yard": ("yd",),
    "mile": ("mi",),
    "m": ("meter", "metre"),
    "cm": ("centimeter", "centimetre"),
    "mm": ("millimeter", "millimetre"),
    "km": ("kilometer", "kilometre"),
    "g": ("gram",),
    "kg": ("kilogram",),
    "second": ("sec",),
    "minute": ("min",),
    "hour": ("hr", "h"),
}
_SPELLING_OF = {other: unit for unit, others in _SPELLINGS.items() for other in others}


def split_unit(text: str) -> tuple[str, str]:
    """The text without its unit, and the unit in one spelling ("" when there is none)."""
    if currency := _CURRENCY.match(text):
        return currency[1] + text[currency.end() :], _one_spelling(currency[2] or currency[3])
    if base := _BASE.fullmatch(text):
        return base["rest"], f"base {base['base']}"
    for pattern, spelling in _SUFFIXES:
        suffix = pattern.fullmatch(text)
        if suffix is None or not suffix["rest"]:
            continue
        if spelling == "degree" and _TRIGONOMETRY.search(text):
            continue  # the sign belongs to the argument
        if spelling:
            return suffix["rest"], spelling
        if not _NO_UNIT.search(suffix["unit"]):
            return suffix["rest"], _one_spelling(suffix["unit"] + (suffix["power"] or ""))
    return text, ""


def same_unit(a: str, b: str) -> bool:
    """Whether two units agree. A unit on one side only says nothing."""
    return not a or not b or a == b


def _one_spelling(unit: str) -> str:
    unit = re.sub(r"[\s{}.]+", " ", unit.lower()).replace(" ^", "^").replace("^ ", "^").strip()
    power = ""
    for word, mark in _POWER_WORDS:
        if unit.startswith(word):
            unit, power = unit.removeprefix(word), mark
    if unit.endswith(("^2", "^3")):
        unit, power = unit[:-2], unit[-2:]
    singular = unit.removesuffix("s") if len(unit) > 2 else unit
    return _SPELLING_OF.get(singular, singular) + power
