"""Matrices in expressions: a scalar times a matrix, sums, transposes, determinants. Entries stay expressions."""

from __future__ import annotations

from verifiers.mathematics.nodes import Node, has, negative

MAX_DETERMINANT = 4
"""Rows of a determinant that is expanded."""


class NotAMatrix(ValueError):
    """The expression is no matrix that this module can work out; the message is a short stable name."""


def work_out(node: Node) -> Node:
    """A matrix or a scalar expression without matrices inside. Raises `NotAMatrix`."""
    if not has(node, "matrix") or node.op == "matrix":
        if any(has(entry, "matrix", "tuple", "list", "rel", "unevaluated", "interval") for entry in node.args):
            raise NotAMatrix("strange_matrix")
        return node
    if node.op == "fn" and node.value in ("det", "abs"):
        return _determinant(work_out(node.args[0]))
    if node.op == "pow" and node.args[1] in (Node("sym", (), "T"), Node("sym", (), "t"), Node("sym", (), "\\top")):
        return _transpose(work_out(node.args[0]))
    if node.op in ("mul", "div"):
        return _scaled(node)
    if node.op == "neg":
        matrix = work_out(node.args[0])
        return matrix._replace(args=tuple(negative(entry) for entry in matrix.args)) if matrix.op == "matrix" else node
    if node.op == "add":
        return _sum([work_out(term) for term in node.args])
    raise NotAMatrix("strange_matrix")


def _scaled(node: Node) -> Node:
    parts = [work_out(part) for part in node.args]
    matrices = [at for at, part in enumerate(parts) if part.op == "matrix"]
    if not matrices:
        return node._replace(args=tuple(parts))
    if len(matrices) > 1 or (node.op == "div" and matrices != [0]):
        raise NotAMatrix("strange_matrix")
    at = matrices[0]
    entries = (node._replace(args=(*parts[:at], entry, *parts[at + 1 :])) for entry in parts[at].args)
    return parts[at]._replace(args=tuple(entries))


def _sum(terms: list[Node]) -> Node:
    if len({(term.op, term.value, len(term.args)) for term in terms}) != 1 or terms[0].op != "matrix":
        raise NotAMatrix("strange_matrix")
    columns = zip(*(term.args for term in terms), strict=True)
    return terms[0]._replace(args=tuple(Node("add", entries) for entries in columns))


def _transpose(matrix: Node) -> Node:
    if matrix.op != "matrix":
        raise NotAMatrix("strange_matrix")
    rows = len(matrix.args) // matrix.value
    entries = (matrix.args[row * matrix.value + column] for column in range(matrix.value) for row in range(rows))
    return Node("matrix", tuple(entries), rows)


def _determinant(matrix: Node) -> Node:
    size = matrix.value
    if matrix.op != "matrix" or size * size != len(matrix.args) or size > MAX_DETERMINANT:
        raise NotAMatrix("strange_matrix")
    return _expanded([list(matrix.args[row * size : (row + 1) * size]) for row in range(size)])


def _expanded(rows: list[list[Node]]) -> Node:
    """By the first row."""
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for column, entry in enumerate(rows[0]):
        minor = [row[:column] + row[column + 1 :] for row in rows[1:]]
        term = Node("mul", (entry, _expanded(minor)))
        terms.append(negative(term) if column % 2 else term)
    return Node("add", tuple(terms))
