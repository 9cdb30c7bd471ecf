"""What brackets mean: doubled ones are merged, equal and unequal ones make groups, points, intervals and sets."""

from __future__ import annotations

from verifiers.mathematics.commands import matrix_of
from verifiers.mathematics.nodes import Node
from verifiers.mathematics.tokens import Token, Unreadable


def merge_brackets(tokens: list[Token]) -> list[Token]:
    """Without the inner of two brackets that enclose the same, so that nesting costs nothing."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for at, token in enumerate(tokens):
        if token.kind == "op" and token.text in ("(", "{"):
            opened.append(at)
        elif token.kind == "op" and token.text in (")", "}") and opened:
            start = opened.pop()
            if tokens[start].text + token.text in ("()", "{}"):
                partner[start] = at
    doubled = {at for at, end in partner.items() if partner.get(at + 1) == end - 1 and tokens[at] == tokens[at + 1]}
    dropped = doubled | {partner[at] for at in doubled}
    return [token for at, token in enumerate(tokens) if at not in dropped] if dropped else tokens


def bracket_node(opening: str, closing: str, items: list[Node], separators: set[str]) -> Node:
    if opening == "{{":
        if len(items) == 1 and items[0].op == "builder":
            return items[0]
        return Node("set", tuple(items))
    if not items:
        raise Unreadable("empty brackets")
    if opening in ("langle", "<"):
        return Node("tuple", tuple(items))
    is_round = opening == "(" and closing == ")"
    if len(items) == 1:
        if is_round or (opening, closing) == ("[", "]"):
            return items[0] if items[0].op != "interval" else Node("tuple", tuple(items))
        raise Unreadable("unequal brackets")
    if separators & {"or", "and"}:
        return Node("list", tuple(items), "or" if "or" in separators else "and")
    if is_round:
        return Node("tuple", tuple(items))
    if len(items) != 2:
        if (opening, closing) == ("[", "]"):
            is_matrix = all(item.op in ("interval", "bracketed") for item in items)
            return matrix_of([item.args for item in items]) if is_matrix else Node("bracketed", tuple(items))
        raise Unreadable("unequal brackets")
    if all(item.op == "interval" and item.value == (True, True) for item in items) and opening == "[":
        return matrix_of([item.args for item in items])
    if all(item.op == "bracketed" for item in items) and opening == "[":
        return matrix_of([item.args for item in items])
    return Node("interval", tuple(items), (opening == "[", closing == "]"))
