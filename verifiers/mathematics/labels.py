"""What names a value: the lone side of a solved form, and the index that runs over the integers."""

from __future__ import annotations

import re

from verifiers.mathematics.nodes import Node, names, replace_symbols, show, symbols

_CLAIM = re.compile(
    r"(?:the )?(?:gold(?:en)?|reference|ground[ -]?truth|truth|true|expected|wrong|incorrect|not|guess)"
    r"(?: answer| label| solution)?",
    re.IGNORECASE,
)
"""What no answer is named by: it says what somebody else wrote."""
_INDICES = names("n m j l N M K")


def name_of(node: Node) -> str:
    """The name on the lone side of a solved form: a variable, f(x), or words."""
    if node.op == "sym":
        return node.value
    if node.op == "call":
        return f"{node.value}({','.join(map(show, node.args))})"
    if node.op == "text":
        return "" if _CLAIM.fullmatch(node.value) else f'"{node.value}"'
    if node.op == "mul" and all(factor.op == "sym" and factor.value.isalpha() for factor in node.args):
        letters = "".join(factor.value for factor in node.args)
        return letters if letters.isupper() else ""  # AB = 5
    if node.op == "mul" and any(factor.value in ("\\angle", "\\triangle") for factor in node.args[:2]):  # m\\angle B
        return '"angle"' if all(factor.op == "sym" for factor in node.args) else ""
    return ""


def with_bound_names(node: Node) -> Node:
    """With what `n \\in \\mathbb{Z}` lets run over the integers called k, unless another k is there."""
    bound = [
        item.args[0].value
        for item in node.args
        if item.op == "rel" and item.value == ("in",) and item.args[0].op == "sym" and item.args[1].op == "field"
    ]
    if len(bound) != 1 or bound[0] not in _INDICES or "k" in symbols(node):
        return node
    return replace_symbols(node, {bound[0]: "k"})
