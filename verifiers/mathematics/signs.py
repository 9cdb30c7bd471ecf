"""Plus-minus signs, written out as both values."""

from __future__ import annotations

from itertools import product

from verifiers.mathematics.nodes import Node, has, negative


def expanded(node: Node) -> Node:
    """Every \\pm as both values: of each item of a list, each point, each side of a relation."""
    if node.op in ("list", "set"):
        items: list[Node] = []
        for item in node.args:
            both = expanded(item) if has(item, "pm", "mp") else item
            items.extend(both.args if both.op == "list" else (both,))
        return node._replace(args=tuple(items))
    count = sum(1 for _ in _signs(node))
    together = has(node, "mp") or (node.op == "tuple" and count > 2)
    if count > 4:
        return Node("unevaluated")
    choices = [(True,) * count, (False,) * count] if together else list(product((True, False), repeat=count))
    return Node("list", tuple(_with_signs(node, list(choice)) for choice in choices), ",")


def _signs(node: Node) -> list[Node]:
    return ([node] if node.op in ("pm", "mp") else []) + [sign for below in node.args for sign in _signs(below)]


def _with_signs(node: Node, choices: list[bool]) -> Node:
    """The tree with the first sign taken from the front of `choices`, and so on."""
    if node.op in ("pm", "mp"):
        positive = choices.pop(0) == (node.op == "pm")
        inner = _with_signs(node.args[0], choices)
        return inner if positive else negative(inner)
    return node._replace(args=tuple(_with_signs(below, choices) for below in node.args))
