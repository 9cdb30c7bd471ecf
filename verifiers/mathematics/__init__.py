"""How two mathematical texts are read and compared, for `verifiers.math` and `verifiers.numeric`.

text -> normal -> tokens -> parser (with numerals, quantities, symbols, commands, brackets, words) -> `reading.Reading`,
all meanings of one text; `compare` takes two readings apart (structure, regions, matrices, scalars) and has exact
arithmetic (`exact`, `polynomials`, `powers`) decide, or leaves it to `algebra`, which runs in worker processes only.
"""
