"""Tokens of a mathematical text, LaTeX or plain. Reads characters only; knows nothing of grammar.

Kinds: num, sym (a letter), cmd (a LaTeX command without its backslash), fn (a named function), text (the content of
\\text{...} and the like, or a plain word), sep (and, or, a comma, a semicolon), op (all other signs).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from verifiers.mathematics.nodes import names

MAX_TOKENS = 4000


class Unreadable(ValueError):
    """The text is not mathematics that this package can read; the message says why."""


class Refused(Unreadable):
    """The text must not be read; the message is a short stable name for the reason."""


class Token(NamedTuple):
    """`blank` tells whether white space stands before it; `style` is the command that wrapped a text."""

    kind: str
    text: str
    blank: bool = False
    style: str = ""


FUNCTIONS = names(
    "sin cos tan cot sec csc sinh cosh tanh coth sech csch arcsin arccos arctan arccot arcsec arccsc asin acos atan "
    "arsinh arcosh artanh asinh acosh atanh log ln lg lb exp sqrt cbrt abs cis det gcd lcm min max Re Im sgn sign "
    "floor ceil binom arg conj factorial gamma"
)
_ALIASES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arsinh", "acosh": "arcosh", "atanh": "artanh",
    "sign": "sgn", "tg": "tan", "ctg": "cot", "cotg": "cot", "arctg": "arctan", "cosec": "csc", "sen": "sin",
}  # fmt: skip
_CONSTANTS = {
    "pi": "pi", "infinity": "infty", "infty": "infty", "inf": "infty", "oo": "infty", "Infinity": "infty",
    "theta": "theta", "alpha": "alpha", "beta": "beta", "gamma": "gamma", "omega": "omega", "phi": "phi",
    "lambda": "lambda",
}  # fmt: skip
_SEPARATORS = {"or": "or", "and": "and", "OR": "or", "AND": "and", "Or": "or", "And": "and"}
_TEXT = names("text textbf textit textrm textsf texttt textnormal textcircled circled mbox hbox mathrm rm operatorname")
_STYLES = names("mathbf mathit mathsf boldsymbol bm bold pmb mathnormal emph underline")
_TOKEN = re.compile(
    r"(?P<blank>\s*)(?:"
    r"(?P<num>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+(?![\d.A-Za-z]))?)"
    r"|\\(?P<cmd>[A-Za-z]+)\*?|\\(?P<sign>.)"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<dots>\.\.\.+)"
    r"|(?P<op>\*\*|<=|>=|!=|=<|==|->|=>|&&|\|\||<>|[^\s]))",
    re.DOTALL,
)
_BRACED = re.compile(r"\s*\{")
_ENVIRONMENT = re.compile(r"\s*\{\s*([A-Za-z]+)\*?\s*\}(?:\s*\[[a-z]\])?(\s*\{[lcr|\s]*\})?")
_NUMERIC_TEXT = re.compile(r"\s*[-+(]?[\d$\\].*", re.DOTALL)
_OPERATORS = {
    "**": "^", "<=": "le", ">=": "ge", "=<": "le", "!=": "ne", "<>": "ne", "==": "=", "*": "cdot", "->": "to",
    "=>": "to", "&&": "&", "||": "Vert",
}  # fmt: skip
_COMMANDS = {
    "leqq": "le", "geqq": "ge", "land": "and", "lor": "or", "wedge": "and", "vee": "or", "ast": "cdot", "star": "cdot",
    "dots": "ldots", "cdots": "ldots", "dotsc": "ldots", "dotsb": "ldots", "dotso": "ldots", "mathop": "",
    "rightarrow": "to", "Rightarrow": "to", "implies": "to", "longrightarrow": "to", "simeq": "approx",
    "cong": "approx", "sim": "approx", "doteq": "approx", "bar": "overline", "union": "cup", "bigcup": "cup",
    "bigcap": "cap", "sqcup": "cup", "ensuremath": "", "mathopen": "", "mathclose": "", "mathrel": "", "mathbin": "",
    "R": "reals", "reals": "reals", "Reals": "reals", "dollar": "$", "textdollar": "$", "pound": "pounds",
    "textsterling": "pounds", "texteuro": "euro", "textcent": "cents", "percent": "%", "mathdollar": "$", "strut": "",
}  # fmt: skip


def tokenise(text: str) -> list[Token]:
    """The tokens of a text in the spelling of the module `normal`. Raises `Refused` where it holds too many."""
    tokens: list[Token] = []
    at, end = 0, len(text)
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:  # only white space is left
            break
        at = match.end()
        blank = bool(match["blank"])
        kind = match.lastgroup
        if kind == "num":
            tokens.append(Token("num", match["num"], blank))
        elif kind == "cmd":
            at = _command(match["cmd"], text, at, blank, tokens)
        elif kind == "word":
            _word(match["word"], blank, tokens, is_last=not text[at:].lstrip()[:1].strip(",;./)}"))
        elif kind == "dots":
            tokens.append(Token("cmd", "ldots", blank))
        elif kind == "sign":
            _sign(match["sign"], blank, tokens)
        else:
            sign = match["op"]
            if sign == "!=" and not blank and _is_numeral_before(tokens):  # 4!=24
                sign, at = "!", at - 1
            kind = "sep" if sign in ",;" else "op"
            tokens.append(Token(kind, _OPERATORS.get(sign, sign), blank))
        if len(tokens) > MAX_TOKENS:
            raise Refused("too_long")
    return tokens


def _is_numeral_before(tokens: list[Token]) -> bool:
    """Whether a numeral, no exponent or subscript, was read last."""
    return bool(tokens) and tokens[-1].kind == "num" and (len(tokens) < 2 or tokens[-2].text not in ("^", "_"))


def _sign(sign: str, blank: bool, tokens: list[Token]) -> None:
    """A backslash before one sign: braces of a set, a new line, money, a percent sign."""
    names = {"{": "{{", "}": "}}", "|": "Vert", "\\": "newline"}
    tokens.append(Token("op", names.get(sign, sign), blank))


def _word(word: str, blank: bool, tokens: list[Token], *, is_last: bool) -> None:
    """Append a plain word. `is_last`: no argument follows, so that `min` and `sec` are units."""
    name = _ALIASES.get(word, word)
    if len(word) == 1:
        tokens.append(Token("sym", word, blank))
    elif name in FUNCTIONS and not (is_last and name in ("min", "sec", "lb")):
        tokens.append(Token("fn", name, blank))
    elif word in _SEPARATORS:
        tokens.append(Token("sep", _SEPARATORS[word], blank))
    elif word.lower() in ("pi", "infinity") or word in _CONSTANTS:
        tokens.append(Token("cmd", _CONSTANTS.get(word, _CONSTANTS.get(word.lower(), word)), blank))
    elif word in ("U", "union"):
        tokens.append(Token("cmd", "cup", blank))
    else:
        tokens.append(Token("text", word, blank, "plain"))


def _command(name: str, text: str, at: int, blank: bool, tokens: list[Token]) -> int:
    """Append what a command stands for; the position after it."""
    if name in ("begin", "end"):
        environment = _ENVIRONMENT.match(text, at)
        if environment is None:
            raise Unreadable(f"\\{name} without an environment")
        tokens.append(Token(name, environment[1], blank))
        return environment.end()
    if name in _TEXT and (opening := _BRACED.match(text, at)):
        return _text(name, text, opening.end(), blank, tokens)
    if name in _STYLES or name in ("rm", "bf", "it"):
        return at
    name = _ALIASES.get(name, name)
    name = _COMMANDS.get(name, name)
    if not name:
        return at
    if name in ("and", "or"):
        tokens.append(Token("sep", name, blank))
    elif name in FUNCTIONS and name not in ("sqrt", "binom", "gamma"):
        tokens.append(Token("fn", name, blank))
    elif name in ("le", "ge", "ne", "cdot", "$", "%", "to", "approx"):
        tokens.append(Token("op", name, blank))
    else:
        tokens.append(Token("cmd", name, blank))
    return at


def _text(style: str, text: str, start: int, blank: bool, tokens: list[Token]) -> int:
    """Append what \\text{...} holds: a separator, a function, mathematics, or words as one token."""
    depth, at = 1, start
    while at < len(text) and depth:
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
    if depth:
        raise Unreadable("a text that never closes")
    content = text[start : at - 1]
    word = content.strip(" ,;:.")
    name = _ALIASES.get(word, word)
    if word.lower() in _SEPARATORS:
        tokens.append(Token("sep", word.lower(), blank))
    elif word.lower() in ("infinity", "pi"):
        tokens.append(Token("cmd", _CONSTANTS[word.lower()], blank))
    elif not word:
        if "," in content or ";" in content:
            tokens.append(Token("sep", ",", blank))
        elif ":" in content:
            tokens.append(Token("op", ":", blank))
    elif name in FUNCTIONS and (style in ("operatorname", "mathrm") or name == "cis"):
        tokens.append(Token("fn", name, blank))
    elif _NUMERIC_TEXT.fullmatch(content) or (style in ("mathrm", "operatorname") and word in ("e", "i")):
        inner = tokenise(content)
        tokens.extend([inner[0]._replace(blank=blank), *inner[1:]] if inner else [])
    elif style == "operatorname" and text[at : at + 1] == "(":
        raise Refused("program_text")
    else:
        tokens.append(Token("text", content.strip(), blank or content[:1].isspace(), style))
    return at
