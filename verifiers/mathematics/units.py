"""Units as dimensions with an exact factor: 2.5 km is 2500 m, 36 square inches are 36 in^2, 150 cents are $1.50.

A word that is no known unit is a thing that is counted: 9 apples are not 9 pears, and neither is 9 metres.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from verifiers.mathematics.guards import CHANGES_VALUE
from verifiers.mathematics.nodes import names


class Unit(NamedTuple):
    """A product of powers of base dimensions, sorted by name, times an exact factor. `letter`: the letters that were
    read as this unit but may be variables."""

    dimensions: tuple[tuple[str, int], ...]
    factor: Fraction = Fraction(1)
    letter: str = ""


_F = Fraction
_BASES: dict[str, tuple[tuple[str, int], ...]] = {
    "length": (("length", 1),), "mass": (("mass", 1),), "time": (("time", 1),), "volume": (("length", 3),),
    "area": (("length", 2),), "speed": (("length", 1), ("time", -1)),
    "force": (("length", 1), ("mass", 1), ("time", -2)), "energy": (("length", 2), ("mass", 1), ("time", -2)),
    "power": (("length", 2), ("mass", 1), ("time", -3)), "pressure": (("length", -1), ("mass", 1), ("time", -2)),
    "frequency": (("time", -1),), "current": (("current", 1),), "charge": (("current", 1), ("time", 1)),
    "voltage": (("current", -1), ("length", 2), ("mass", 1), ("time", -3)),
    "resistance": (("current", -2), ("length", 2), ("mass", 1), ("time", -3)),
    "dollar": (("dollar", 1),), "pound": (("pound sterling", 1),), "euro": (("euro", 1),), "yen": (("yen", 1),),
    "rupee": (("rupee", 1),), "angle": (("angle", 1),), "none": (), "radian": (("radian", 1),), "percent": (("%", 1),),
    "celsius": (("celsius", 1),), "fahrenheit": (("fahrenheit", 1),), "kelvin": (("kelvin", 1),),
    "mole": (("mole", 1),), "bit": (("bit", 1),),
}  # fmt: skip
_INCH, _POUND = _F(254, 10000), _F(45359237, 100000000)
_TABLE: tuple[tuple[str, str, Fraction], ...] = (
    ("length", "m meter metre", _F(1)), ("length", "km kilometer kilometre", _F(1000)),
    ("length", "cm centimeter centimetre", _F(1, 100)), ("length", "mm millimeter millimetre", _F(1, 1000)),
    ("length", "dm decimeter decimetre", _F(1, 10)), ("length", "nm nanometer nanometre", _F(1, 10**9)),
    ("length", "micrometer micrometre micron um", _F(1, 10**6)), ("length", "in inch inche", _INCH),
    ("length", "ft foot feet", 12 * _INCH), ("length", "yd yard", 36 * _INCH), ("length", "mi mile", 63360 * _INCH),
    ("mass", "kg kilogram kilo", _F(1)), ("mass", "g gram gm", _F(1, 1000)), ("mass", "mg milligram", _F(1, 10**6)),
    ("mass", "tonne", _F(1000)), ("mass", "lb lbs pound", _POUND), ("mass", "oz ounce", _POUND / 16),
    ("mass", "ton", 2000 * _POUND),
    ("time", "s sec second", _F(1)), ("time", "min minute", _F(60)), ("time", "h hr hour", _F(3600)),
    ("time", "day", _F(86400)), ("time", "week wk", _F(604800)), ("time", "ms millisecond", _F(1, 1000)),
    ("time", "year yr", _F(31557600)), ("time", "month", _F(2629800)), ("time", "decade", _F(315576000)),
    ("volume", "l liter litre", _F(1, 1000)), ("volume", "ml milliliter millilitre cc", _F(1, 10**6)),
    ("volume", "cl centiliter centilitre", _F(1, 10**5)),
    ("volume", "gal gallon", 231 * _INCH**3), ("volume", "qt quart", _F(231, 4) * _INCH**3),
    ("volume", "pt pint", _F(231, 8) * _INCH**3), ("volume", "cup", _F(231, 16) * _INCH**3),
    ("area", "acre", 43560 * (12 * _INCH) ** 2), ("area", "ha hectare", _F(10000)),
    ("speed", "mph", 63360 * _INCH / 3600), ("speed", "kph kmh kmph", _F(1000, 3600)),
    ("force", "N newton", _F(1)), ("force", "kN kilonewton", _F(1000)),
    ("energy", "J joule", _F(1)), ("energy", "kJ kilojoule", _F(1000)), ("power", "W watt", _F(1)),
    ("power", "kW kilowatt", _F(1000)), ("pressure", "Pa pascal", _F(1)), ("pressure", "kPa kilopascal", _F(1000)),
    ("frequency", "Hz hertz", _F(1)), ("frequency", "kHz kilohertz", _F(1000)), ("current", "A amp ampere", _F(1)),
    ("charge", "C coulomb", _F(1)), ("voltage", "V volt", _F(1)), ("resistance", "ohm Ω", _F(1)),
    ("resistance", "kohm kΩ kiloohm", _F(1000)), ("resistance", "Mohm MΩ megaohm", _F(10**6)),
    ("dollar", "dollar usd $ buck us$", _F(1)), ("dollar", "cent ¢", _F(1, 100)),
    ("pound", "gbp £ sterling quid", _F(1)), ("pound", "pence penny", _F(1, 100)), ("euro", "euro eur €", _F(1)),
    ("yen", "yen jpy ¥", _F(1)), ("rupee", "rupee inr ₹ rs", _F(1)),
    ("angle", "degree deg °", _F(1)), ("angle", "arcminute", _F(1, 60)), ("angle", "arcsecond", _F(1, 3600)),
    ("percent", "percent % pct percentage", _F(1)),
    ("none", "unit", _F(1)), ("none", "thousand", _F(1000)), ("none", "hundred", _F(100)),
    ("none", "dozen", _F(12)), ("none", "million", _F(10**6)),
    ("none", "billion", _F(10**9)), ("none", "trillion", _F(10**12)), ("radian", "radian rad", _F(1)),
    ("celsius", "celsius °c", _F(1)), ("fahrenheit", "fahrenheit °f", _F(1)), ("kelvin", "kelvin K", _F(1)),
    ("mole", "mol mole", _F(1)), ("bit", "bit", _F(1)), ("bit", "byte", _F(8)),
)  # fmt: skip
_KNOWN = {name: Unit(_BASES[base], factor) for base, spellings, factor in _TABLE for name in spellings.split()}
LETTERS = names("m g s h L l N J W V K")
"""Letters that are a unit when they follow a number and a blank."""

PERCENT = _KNOWN["%"]
DEGREE = _KNOWN["degree"]
RADIAN = _KNOWN["radian"]
CURRENCIES = {"$": _KNOWN["$"], "pounds": _KNOWN["£"], "euro": _KNOWN["€"], "yen": _KNOWN["¥"], "rupee": _KNOWN["₹"]}
CENTS = _KNOWN["cent"]

_NOT_A_UNIT = re.compile(
    r"\d|\b(?:or|and|to|plus|minus|over|not|is|are|was|be|if|when|at|least|most|than|about|approximately|more|less|up|"
    r"between|only|all|any|no|none|never|except|half|pi|sqrt|correct|true|false|both|either|undefined|exist|solutions?|"
    r"ish|teen|fold|likely|for|with|where|such|that|which|given|whenever|as|by|from|mod|modulo|base|followed|repeating|i|we|you|it)\b",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"(?:\w+ )?(?:digits|factors|multiples|roots|sums|products)", re.IGNORECASE)
"""Things that are counted, though their names say elsewhere that a number is changed."""
_WORD = re.compile(r"[A-Za-z°$€£¥₹¢%Ω]+")
_PIECE = re.compile(
    r"\s*(?:(?P<per>/|per\b)|(?P<square>(?:square|sq)\b\.?)|(?P<cubic>(?:cubic|cu)\b\.?)|(?P<name>[A-Za-z°$€£¥₹¢%Ω]+)\.?"
    r"\s*(?P<power>\^\s*\{?\s*-?\d\s*\}?|\*\*\s*-?\d|squared|cubed)?|(?P<dot>[*·-]|\\cdot))"
)
_MAX_WORDS = 6


@lru_cache(maxsize=1024)
def read_unit(text: str) -> Unit | None:
    """The unit that a text names, a counted thing where it is no known unit, or None for other text."""
    text = text.strip(" .,;:!~()").replace("per cent", "percent")
    if not text or len(text) > 60 or _NOT_A_UNIT.search(re.sub(r"\^\s*\{?\s*-?\d\s*\}?", "", text)):
        return None
    known = _known(text)
    if known is not None or (CHANGES_VALUE.search(text) and not _COUNTED.fullmatch(text)):
        return known
    words = [_singular(word.lower()) for word in _WORD.findall(text)]
    if not words or len(words) > _MAX_WORDS:
        return None
    if not re.fullmatch(r"[A-Za-z' ./^{}\d-]+", text):
        return None
    return Unit((("thing " + " ".join(words), 1),))


def same_dimensions(a: Unit, b: Unit) -> bool:
    """Whether two units can be converted; two counted things agree when they share a word."""
    if not a.dimensions or not b.dimensions or a.dimensions == b.dimensions:
        return True
    if {a, b} == {_KNOWN["pound"], _KNOWN["£"]}:
        return True
    if len(a.dimensions) == len(b.dimensions) == 1:
        first, second = (set(unit.dimensions[0][0].split()) - {"thing"} for unit in (a, b))
        is_thing = a.dimensions[0][0].startswith("thing") and b.dimensions[0][0].startswith("thing")
        return is_thing and bool(first & second)
    return False


def find_unit(name: str) -> Unit | None:
    """A known unit by its exact name, its lower case or its singular."""
    for spelling in (name, name.lower(), _singular(name.lower())):
        if spelling in _KNOWN and (len(name) > 1 or spelling == name or name in LETTERS):
            return _KNOWN[spelling]
    return None


def _known(text: str) -> Unit | None:
    """A product of known units, such as `km/h`, `square inches` or `kg m^2 per s^2`."""
    dimensions: dict[str, int] = {}
    factor, sign, power_before, at, count = Fraction(1), 1, 1, 0, 0
    while at < len(text):
        piece = _PIECE.match(text, at)
        if piece is None:
            return None
        at = piece.end()
        if piece["per"]:
            sign = -1
        elif piece["square"] or piece["cubic"]:
            power_before = 2 if piece["square"] else 3
        elif piece["name"]:
            unit = find_unit(piece["name"])
            if unit is None:
                return None
            power = sign * power_before * _power(piece["power"])
            for name, exponent in unit.dimensions:
                dimensions[name] = dimensions.get(name, 0) + exponent * power
            factor *= unit.factor**power
            power_before, count = 1, count + 1
    if not count:
        return None
    return Unit(tuple(sorted((name, power) for name, power in dimensions.items() if power)), factor)


def _power(text: str | None) -> int:
    if not text:
        return 1
    if text in ("squared", "cubed"):
        return 2 if text == "squared" else 3
    return int(text.strip("^*{} \t"))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    irregular = {"people": "person", "men": "man", "women": "woman", "children": "child", "feet": "foot"}
    return irregular.get(word, word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word)
