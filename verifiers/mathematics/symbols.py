"""Names in a text: variables with primes and subscripts, functions that are called, letters that form words."""

from __future__ import annotations

from verifiers.mathematics.nodes import Node
from verifiers.mathematics.quantities import ENGLISH, Quantities
from verifiers.mathematics.tokens import Refused, Token, Unreadable
from verifiers.mathematics.units import CENTS

_CALLED = frozenset("fghFGH")


class Symbols(Quantities):
    """Reads names."""

    def _symbol(self) -> Node:
        name = self._next.text
        self._at += 1
        if self._is("_"):
            return self._after_name(self._subscript(Node("sym", (), name)))
        if (name in _CALLED and self._calls()) or self._defines():
            return self._call(name)
        if name in ("e", "i"):
            return Node("const", (), name)
        return self._after_name(Node("sym", (), name))

    def _symbol_named(self, name: str) -> Node:
        node = Node("sym", (), "\\" + name)
        return self._after_name(self._subscript(node) if self._is("_") else node)

    def _after_name(self, node: Node) -> Node:
        while self._is("'", "prime"):
            self._at += 1
            node = Node("sym", (), node.value + "'")
            if self._is("("):
                return self._call(node.value)
        return node

    def _defines(self) -> bool:
        """Whether a letter is the name of a function that is being defined: p(x) = ..."""
        tokens = self._tokens[self._at : self._at + 6]
        texts = [token.text for token in tokens]
        closing = 2 if texts[2:3] == [")"] else 4
        return texts[:1] == ["("] and texts[closing : closing + 2] == [")", "="] and tokens[1].kind == "sym"

    def _calls(self) -> bool:
        """Whether a letter such as f is followed by its argument: f(3), f'(x), f^{-1}(3)."""
        at = self._at
        while self._tokens[at].text in ("'", "prime"):
            at += 1
        if self._tokens[at].text == "^":
            closing = next((i for i in range(at, min(at + 7, len(self._tokens))) if self._tokens[i].text == "}"), at)
            at = closing + 1
        return self._tokens[at].text == "(" and not self._tokens[at].blank

    def _call(self, name: str) -> Node:
        while self._is("'", "prime"):
            self._at += 1
            name += "'"
        if self._take("^"):
            self._argument()
            name += "^"
        arguments = self._primary()
        return Node("call", arguments.args if arguments.op == "tuple" else (arguments,), name)

    def _word(self) -> Node:
        """A text where a factor should be: letters in a style, or prose, which is not mathematics."""
        token = self._next
        self._at += 1
        following = self._next
        if token.style != "plain":
            if self._is("_"):
                return self._subscript(Node("text", (), token.text))
            if len(token.text) == 1 and token.text.isalpha():
                return Node("sym", (), token.text)
            if self._is("="):
                return Node("text", (), token.text)
            raise Unreadable("words")
        if token.text.lower() in ENGLISH:
            raise Unreadable("words")
        if len(token.text) <= 3 or (token.text.isupper() and len(token.text) <= 4):
            return self._letters(token)
        if following.text == "(" or following.text == ".":
            raise Refused("program_text")
        if self._is("="):
            return Node("text", (), token.text)
        raise Unreadable("words")

    def _letters(self, word: Token) -> Node:
        """The first letter of a short word that is a product; the others are read as what follows it."""
        self._at -= 1
        each = [Token("sym", letter) for letter in word.text]
        self._tokens[self._at : self._at + 1] = [each[0]._replace(blank=word.blank), *each[1:]]
        return self._symbol()

    def _mark(self, node: Node) -> Node:
        mark = self._next.text
        self._at += 1
        if mark == "circ":
            return self._degrees(node)
        if mark == "cents":
            return Node("unit", (node,), CENTS)
        if node.op == "sym":
            return Node("sym", (), node.value + "'")
        raise Unreadable("a prime")
