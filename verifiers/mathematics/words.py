"""Answers in words: names, choice letters, numbers in words, times and dates."""

from __future__ import annotations

import re
from typing import NamedTuple

from verifiers.mathematics.nodes import names

WRAPPER = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal|circled)?|circled|mathrm|mathbf|mathit|mathsf|mbox|hbox|emph|underline|boldsymbol|operatorname)"
    r"\s*\{([^{}]*)\}"
)
_QUALIFIER = re.compile(
    r"[\s,;(]{1,8}(?:for (?:any|all|every|each|some|real|integer|positive|arbitrary|constants?)\b|"
    r"(?:where|with|whenever|provided|given) \S+ (?:is|are|being|an?|in|any|=|>|<|\\)|"
    r"(?:is|are) (?:an? )?(?:arbitrary|any) )[^.]*$",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"(?<=\S)\s+\([A-Za-z]{3,}(?:[ ,.'-]+[A-Za-z]+)*[.]?\)$")
_REASON = re.compile(
    r"(?<=\S)\s*\(\s*(?:since|because|as|for|where|rejecting|discarding|ignoring|see|(?:and )?not (?=[-\d\\]))\b"
    r"[^()]*\)$"
)
_DOUBT = re.compile(r"\b(?:not|or|wrong|incorrect|maybe|false|unless|if)\b", re.IGNORECASE)
_SAID = re.compile(
    r"(?:(?:so|thus|hence|therefore),? )?(?:the |my )?(?:correct |final |right )?"
    r"(?:answer|option|choice)\s*(?:is:?|:|=)\s*",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|an?) +(?=\w)")
_WORDS = re.compile(r"[^\W\d_][^\d_\\{}^=<>+*/|$%!\[\]]*")
_SEPARATOR = re.compile(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+")
_SYNONYMS = {
    "dne": "does not exist", "d.n.e": "does not exist", "doesn't exist": "does not exist",
    "limit does not exist": "does not exist", "it does not exist": "does not exist", "not exist": "does not exist",
    "no solutions": "no solution", "no real solutions": "no solution", "no real solution": "no solution",
    "empty set": "no solution", "none": "no solution", "no such number": "no solution",
    "infinitely many": "infinity", "infinitely many solutions": "infinity", "infinite": "infinity",
    "infinite solutions": "infinity", "infinite number of solutions": "infinity", "infinitely": "infinity",
    "positive infinity": "infinity", "plus infinity": "infinity", "minus infinity": "-infinity",
    "negative infinity": "-infinity", "all real numbers": "reals", "all reals": "reals", "real numbers": "reals",
    "set of all real numbers": "reals", "set of real numbers": "reals", "any real number": "reals",
    "every real number": "reals", "all integers": "integers", "set of all integers": "integers",
    "set of integers": "integers", "all real values": "reals", "mon": "monday", "tue": "tuesday", "tues": "tuesday",
    "wed": "wednesday", "thu": "thursday", "thur": "thursday", "thurs": "thursday", "fri": "friday",
    "sat": "saturday", "sun": "sunday",
}  # fmt: skip
AS_MATHEMATICS = {
    "infinity": r"\infty",
    "-infinity": r"-\infty",
    "reals": r"\mathbb{R}",
    "integers": r"\mathbb{Z}",
    "no solution": r"\emptyset",
}
"""Words that say what a sign says."""
SHORT_WORDS = names(
    "no on yes odd even not nor one two six ten red blue he she it is in at to of we me my up so go do be by if or and "
    "all any ace day man boy cat dog car mon tue wed thu fri sat sun nan dne true none"
)
"""Words that must not be read as products of letters."""

_CHOICE = re.compile(r"(?:(?:option|choice|answer)\s*:?\s*)?(?:\(([A-J])\)|([A-J])[).:]?)", re.IGNORECASE)
_CHOICE_VALUE = re.compile(
    r"(?:(?:option|choice|answer)\s*:?\s*)?(?:\(([A-J])\)(?:[:.]\s*|\s+)|([A-J])\s?[).:]\s*|([A-J])\s+-\s+)"
    r"(?!(?:or|and)\b|[,;+*/^=!_<>])(\S.*)",
    re.DOTALL,
)
_TIME = re.compile(
    r"(?:at )?(\d{1,2})(?:\s?:\s?(\d{2}))?(?:\s?:\s?(\d{2}))?\s*"
    r"(a\.? ?m\.?|p\.? ?m\.?|o'clock|noon|midnight|hours|hrs|h)?"
)
_MONTH_NAMES = (
    "january jan february feb march mar april apr may may june jun july jul august aug september sep october oct "
    "november nov december dec"
)
_MONTHS = {name: at // 2 + 1 for at, name in enumerate(_MONTH_NAMES.split())} | {"sept": 9}
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?"
_WEEKDAY = r"(?:on\s+)?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,?\s+)?"
_DAY = r"(\d{1,2})(?:st|nd|rd|th)?"
_DATES = (
    re.compile(rf"{_WEEKDAY}(?P<month>{_MONTH})\s*(?P<day>{_DAY})(?:,?\s+(?P<year>\d{{4}}))?"),
    re.compile(rf"{_WEEKDAY}(?:the )?(?P<day>{_DAY})\s+(?:of )?(?P<month>{_MONTH})(?:,?\s+(?P<year>\d{{4}}))?"),
    re.compile(r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"),
    re.compile(r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})"),
    re.compile(r"(?P<month>[a-z]+)\.?,?\s+(?P<year>\d{4})(?P<day>)"),
)
_NAMED_MONTH = re.compile(rf"\b{_MONTH},?\s+\d|\d\s*(?:st|nd|rd|th)?,?\s+(?:of\s+)?{_MONTH}(?![A-Za-z])", re.IGNORECASE)
_UNIT_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS = {word: value for value, word in enumerate(_UNIT_NAMES.split())}
_TEN_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_TENS = {word: 10 * value for value, word in enumerate(_TEN_NAMES.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}


class Time(NamedTuple):
    """Seconds of the day; of the half day when the text does not say which half."""

    seconds: int
    half_known: bool

    def agrees(self, other: Time) -> bool:
        if self.half_known and other.half_known:
            return self.seconds == other.seconds
        return self.seconds % 43200 == other.seconds % 43200


class Date(NamedTuple):
    month: int
    day: int | None
    year: int | None

    def agrees(self, other: Date) -> bool:
        """What both sides say must be the same; a missing year says nothing, a missing day does."""
        same_year = None in (self.year, other.year) or self.year == other.year
        return (self.month, self.day) == (other.month, other.day) and same_year


def unwrapped(text: str) -> str:
    """The text without the commands that only set it in another style."""
    for _ in range(3):
        stripped = WRAPPER.sub(r" \1 ", text)
        if stripped == text:
            break
        text = stripped
    return " ".join(text.split())


def without_introduction(text: str) -> str:
    """Without "the answer is" in front, if something is left."""
    said = _SAID.match(text)
    return text[said.end() :] if said is not None and said.end() < len(text) else text


def without_qualifier(text: str) -> str:
    """Without a trailing remark such as "for any real c" or "(see above)", if something is left."""
    shorter = _QUALIFIER.sub("", _REASON.sub("", text))
    aside = _ASIDE.search(shorter)
    if aside is not None and not _DOUBT.search(aside[0]):
        shorter = shorter[: aside.start()]
    return shorter if shorter.strip() else text


def words_of(plain: str) -> str:
    """Words in one spelling, "" for a text that is more than words. `plain` has no wrappers."""
    if not _WORDS.fullmatch(plain):
        return ""
    words = " ".join(plain.casefold().replace('"', "").split()).strip(" .,;:!'()")
    words = _ARTICLE.sub("", words, count=1)
    if len(words) == 1:
        return plain if len(plain) == 1 else ""
    return _SYNONYMS.get(words, words)


def same_words(a: str, b: str) -> bool:
    """Whether two texts are the same words, or the same list of words in any order."""
    return a == b or ("," in a + b and sorted(_SEPARATOR.split(a)) == sorted(_SEPARATOR.split(b)))


def choice_of(plain: str) -> tuple[str, str]:
    """A choice letter and the text of its value; ("", "") for no choice."""
    if match := _CHOICE.fullmatch(plain):
        letter = match[1] or match[2]
        return (letter.upper(), "") if letter.isupper() or letter not in "ei" else ("", "")
    if match := _CHOICE_VALUE.fullmatch(plain):
        return (match[1] or match[2] or match[3]).upper(), match[4]
    return "", ""


def time_of(plain: str) -> Time | None:
    plain = plain.casefold().strip(" .")
    if plain in ("noon", "midnight"):
        return Time(43200 if plain == "noon" else 0, True)
    match = _TIME.fullmatch(plain) or _TIME.fullmatch(plain + ".")
    if match is None or not (match[2] or match[4]) or (match[4] in ("hours", "hrs", "h") and not match[2]):
        return None
    hour, minute, second = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    half = (match[4] or "")[:1]
    if hour > 24 or minute > 59 or second > 59 or (half in ("a", "p") and not 1 <= hour <= 12):
        return None
    if half in ("a", "p"):
        hour = hour % 12 + (12 if half == "p" else 0)
    if half in ("n", "m"):
        hour = 12 if half == "n" else 0
    return Time(hour % 24 * 3600 + minute * 60 + second, half in ("a", "p", "n", "m") or hour > 12 or hour == 0)


def date_of(plain: str) -> Date | None:
    plain = plain.casefold().strip(" .")
    for pattern in _DATES:
        match = pattern.fullmatch(plain)
        if match is None:
            continue
        name, day = match["month"].strip("."), re.sub(r"\D", "", match["day"] or "")
        month = _MONTHS.get(name) if name.isalpha() else int(name)
        if month is not None and 1 <= month <= 12 and (not day or 1 <= int(day) <= 31):
            return Date(month, int(day) if day else None, int(match["year"]) if match["year"] else None)
    return None


def names_a_month(plain: str) -> bool:
    """Whether a number stands beside the name of a month, so that it is a day or a year and no value."""
    return _NAMED_MONTH.search(plain) is not None


def number_in_words(words: str) -> int | None:
    """The value of "twenty-one" or "three hundred and five"; None for other words."""
    total = current = 0
    parts = words.replace("-", " ").replace(" and ", " ").split()
    if not parts or len(parts) > 12:
        return None
    for part in parts:
        if part in _UNITS or part in _TENS:
            current += _UNITS.get(part, _TENS.get(part, 0))
        elif part == "hundred":
            current = max(current, 1) * 100
        elif part in _SCALES:
            total, current = total + max(current, 1) * _SCALES[part], 0
        else:
            return None
    return total + current
