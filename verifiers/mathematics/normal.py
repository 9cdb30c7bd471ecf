"""One spelling for the text of an answer: plain characters, no spacing commands, no dollar signs around mathematics.

Only spelling changes here, never meaning: `½` becomes `\\frac{1}{2}`, `3²` becomes `3^{2}`, `\\left(` becomes `(`.
"""

from __future__ import annotations

import re
import unicodedata

_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "zeta": "ζ", "eta": "η", "theta": "θ",
    "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μµ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φϕ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ",
    "Lambda": "Λ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip
_SIGNS = {
    "times": "×✕⨯", "cdot": "·⋅∙", "div": "÷", "sqrt": "√", "infty": "∞", "le": "≤⩽≦", "ge": "≥⩾≧", "ne": "≠",
    "cup": "∪", "cap": "∩", "in": "∈", "emptyset": "∅", "pm": "±", "mp": "∓", "approx": "≈", "langle": "⟨〈",
    "rangle": "⟩〉", "to": "→", "setminus": "∖", "equiv": "≡", "angle": "∠", "triangle": "△", "ldots": "…",
    "pounds": "£", "euro": "€", "yen": "¥", "rupee": "₹", "cents": "¢", "lfloor": "⌊", "rfloor": "⌋",
    "lceil": "⌈", "rceil": "⌉", "int": "∫", "sum": "∑", "prod": "∏", "partial": "∂", "perp": "⊥", "cdots": "⋯",
}  # fmt: skip
_OTHERS = {
    **dict.fromkeys("−–—‐‑﹣－", "-"),
    **dict.fromkeys("’‘′", "'"),
    **dict.fromkeys("“”", '"'),
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u00ad\u200e\u200f", ""),
    "°": "^\\circ ", "º": "^\\circ ", "ℝ": "\\mathbb{R}", "ℤ": "\\mathbb{Z}", "ℕ": "\\mathbb{N}", "ℚ": "\\mathbb{Q}",
    "ℂ": "\\mathbb{C}", "∛": "\\sqrt[3]", "⁄": "/", "∕": "/", "％": "%", "＄": "\\$", "，": ", ", "：": ":", "⩵": "=",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_TABLE: dict[int, str] = {
    **{ord(sign): f"\\{name} " for names in (_GREEK, _SIGNS) for name, signs in names.items() for sign in signs},
    **{ord(sign): text for sign, text in _OTHERS.items()},
}
_SUPERSCRIPT = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_SUBSCRIPT = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_OVERLINED = re.compile("((?:[0-9]\u0305)+)")
_VULGAR = re.compile("[¼-¾⅐-⅞]")

_REWRITES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\(?:\[-?\d+(?:\.\d+)?[a-z]{2}\])?", r" \\newline "),
        (r"\\!\s*", ""),
        (r"\\(?:left|right|middle)\s*\.", ""),
        (r"\\(?:left|right|middle|displaystyle|textstyle|scriptstyle|limits|nolimits|[bB]igg?[lrm]?)(?![A-Za-z])", ""),
        (r"\\(?:quad|qquad|space|thinspace|enspace|hfill|noindent|allowbreak)(?![A-Za-z])|\\[,;:> ]|~", " "),
        (r"\\(?:text)?color\s*(?:\[\w+\])?\{[^{}]*\}", ""),
        (
            r"\\(?:tiny|scriptsize|footnotesize|small|normalsize|large|Large|LARGE|huge|Huge|bfseries|bf|it|rm)(?![A-Za-z{])\s?",
            "",
        ),
        (r"\\(?:hspace|vspace|label|tag)\*?\{[^{}]*\}|\\[hv]?phantom\s*(?:\{[^{}]*\}|[^\\\s])", " "),
        (r"\\(?:[dtcs]|nice|flat)frac(?![A-Za-z])", r"\\frac"),
        (r"^\s*\\(?:therefore|implies|Rightarrow|Longrightarrow)(?![A-Za-z])", ""),
        (r"(?<=[\d}])\s*(?:\\(?:text|mathrm|rm)\s*\{\s*([kM]?)\s*\}\s*)?\\Omega(?=[\s.]*$)", r"\\text{ \1ohm}"),
        (r"\\(?:measured|spherical)angle(?![A-Za-z])", r"\\angle"),
        (r"(?<=\d)\s*\^\s*(?:\{\s*)?(?:o(?![A-Za-z\d])|\\(?:text|mathrm|rm)\s*\{\s*o\s*\})(?:\s*\})?", r"^\\circ "),
        (r"\^\s*\{\s*\}|(?<=[\d!)])\s*\{\s*\}(?=\s*(?:[=,.;]|$))", ""),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\leq(?:slant|q)?(?![A-Za-z])", r"\\le"),
        (r"\\geq(?:slant|q)?(?![A-Za-z])", r"\\ge"),
        (r"\\neq(?![A-Za-z])|\\not\s*=", r"\\ne"),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\(?:colon)(?![A-Za-z])|(?<![a-z])\{:\}", ":"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\\lbrack(?![A-Za-z])", "["),
        (r"\\rbrack(?![A-Za-z])", "]"),
        (r"\\(?:lvert|rvert|vert)(?![A-Za-z])", "|"),
        (r"\\(?:backslash|smallsetminus)(?![A-Za-z])", r"\\setminus"),
        (r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
        (r"\\(?:degree|textdegree|degrees|deg(?=\s*$))(?![A-Za-z])", r"^\\circ"),
        (r"\\var(?=epsilon|phi|theta|rho|sigma|pi|kappa)", r"\\"),
        (r"\\[()\[\]]", " "),
        (r"\{,\}(?=\d{3}(?!\d))|(?<=\d)\{,\}(?=\d{3}(?:\{,\}|,))", ","),
        (r"(?<=\d)\{,\}(?=\d)", "."),
        (r"(?<=\d)\{\\,\}(?=\d)", " "),
        (r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*))", r"\\times "),
        (r"\{\s*(\^\s*\{?\s*\\circ\s*\}?)\s*\}", r"\1"),
    )
)
_LATEX_SPACING = re.compile(r"\\|~|\{[,:]?\s*\}|\d\s*[xX]\s*10|\d\s*\^\s*\{?\s*o")
_PAIRED_DOLLARS = re.compile(r"(?<!\\)\$+")
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*|`([^`]*)`|__(\d[^_]*)__", re.DOTALL)
_TRAILING = ".,;:!? \t\r\n"


def normalise(text: str) -> str:
    """The text in one spelling. Idempotent enough to be a key: equal keys mean the same text."""
    if not text.isascii():
        text = _to_ascii(text)
    text = _without_dollars(text.replace("\0", ""))
    if "*" in text or "`" in text:
        emphasis = _EMPHASIS.fullmatch(text.strip().rstrip("."))
        if emphasis:
            text = emphasis[1] or emphasis[2] or emphasis[3] or ""
    if _LATEX_SPACING.search(text):
        for pattern, replacement in _REWRITES:
            text = pattern.sub(replacement, text)
    return _without_full_stop(" ".join(text.split()))


def _to_ascii(text: str) -> str:
    text = _OVERLINED.sub(lambda run: "\\overline{" + run[1].replace("\u0305", "") + "}", text)
    text = _SUPERSCRIPT.sub(lambda run: "^{" + run[0].translate(_SUPERSCRIPTS) + "}", text)
    text = _SUBSCRIPT.sub(lambda run: "_{" + run[0].translate(_SUBSCRIPTS) + "}", text)
    text = _VULGAR.sub(_vulgar, text).translate(_TABLE)
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _vulgar(character: re.Match[str]) -> str:
    top, _, bottom = unicodedata.normalize("NFKC", character[0]).partition("⁄")
    return f"\\frac{{{top}}}{{{bottom}}}" if bottom else character[0]


def _without_dollars(text: str) -> str:
    """Without the signs that open and close mathematics; a lone one before a number is money."""
    if "$" not in text:
        return text
    signs = _PAIRED_DOLLARS.findall(text)
    if len(signs) % 2:
        return _PAIRED_DOLLARS.sub(r"\\$", text) if len(signs) == 1 else _PAIRED_DOLLARS.sub("", text)
    return _PAIRED_DOLLARS.sub(" ", text)


def _without_full_stop(text: str) -> str:
    """Without final punctuation; dots that say "and so on", a factorial and an escaped sign stay."""
    while text and (text[-1] in _TRAILING or (text[-1] == "\\" and text[-2:-1] != "\\")):
        if text.endswith(("...", "!")) or text[-2:-1] == "\\":
            break
        text = text[:-1]
    return text
