"""The program in an answer: fences of every kind, none at all, and bodies that continue a prompt."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verifiers.program import find_program

F = "def f(x):\n    return x + 1\n"
G = "def f(x):\n    return x + 2\n"


def program(answer, **options):
    return find_program(answer, **options).text


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{F}```",
        f"Sure!\n\n```python\n{F}```\nIt adds one.",
        f"```py\n{F}\n```",
        f"```Python3\n{F}```  \n",
        f"```{{.python .numberLines}}\n{F}```",
        f"```\n{F}```",
        f"~~~python\n{F}~~~",
        f"~~~~\n{F}~~~~~\nend",
        f"````python\n{F}````",
        f"``` python\n{F}```",
        f"```python\r\n{F}```\r\n",
        f"```python\n{F}",  # cut off, or the closing fence forgotten
        f"```python\n{F.rstrip()}```",  # the closing fence behind the code
        f"```python\n{G}```\nBetter:\n```python\n{F}```",
        f"```python\n{G}\n```python\n{F}```",  # the first was never closed
        f"```python\n```python\n{F}```",  # a forced opening fence, and then the model's own
        f"```python\n{F}```\nOutput:\n```\n3\n```",
        f"```python\n{F}```\nRun it:\n```bash\npython f.py\n```\n```text\n3\n```",
        f"```python\n{F}```\n```python\n\n```",
        f"``` {F}```",
        f"{F}```\nIt adds one.",  # began inside a block that a forced closing opened
        f"\n\n{F}```",
        F,
        f"The program is below.\n\n{F}",
        f"<think>```python\n{G}```</think>{F}",
        f"<think>```python\n{G}```</think>\n\n```python\n{F}```",
        f"<answer>\n```python\n{F}```\n</answer>",
        f"<answer>\n{F}</answer>",
        f"x = 3 is tried first.\n```\n{F}```",
        f"```cpp\nint f();\n```\nIn Python:\n```python\n{F}```",
    ],
)
def test_one_program(answer):
    found = find_program(answer)
    assert found.problem == ""
    assert found.text.strip().replace("\r", "") == F.strip()
    assert found.span is not None
    start, end = found.span
    assert answer[start:end].strip() == found.text.strip()


def test_a_block_in_a_list_loses_its_margin():
    assert program(f"1. Code:\n\n   ```python\n   {F[:-1].replace(chr(10), chr(10) + '   ')}\n   ```\n") == F


def test_a_fence_in_a_docstring_ends_nothing():
    code = 'def f(x):\n    """Use:\n\n    ```\n    f(1)\n    ```\n    """\n    return x + 1\n'
    assert program(f"```python\n{code}```") == code


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "the answer is empty"),
        (" \n", "the answer is empty"),
        ("I do not know. For that, import is the key.", "no program: neither a fenced block nor a line of code"),
        ("```\n\n```", "no program"),
        ("```java\nclass A {}\n```", "the last block is java, not Python"),
        ("<think>```python\nx = 1\n```", "the thinking never closed"),
    ],
)
def test_no_program(answer, problem):
    found = find_program(answer)
    assert (found.text, found.span) == (None, None)
    assert found.problem.startswith(problem)


def test_the_block_that_defines_what_is_tested_comes_first():
    answer = f"```python\n{F}```\nFor example:\n```python\nprint(f(1))\n```"
    assert program(answer) == "print(f(1))\n"
    assert program(answer, defines="f") == F
    assert program(answer, defines="g") == "print(f(1))\n"
    assert program(f"```python\nf = lambda x: x\n```\n```\n{F}```", defines="f") == F


PREFIX = 'import math\n\ndef f(x: int) -> int:\n    """Adds one."""\n'


def run(answer):
    """What the program's f makes of 1. The texts are those of this file."""
    space = {}
    exec(program(answer, prefix=PREFIX, defines="f"), space)  # noqa: S102
    return space["f"](1)


@pytest.mark.parametrize(
    "answer",
    [
        "    return x + math.ceil(0.5)\n",
        "```python\n    return x + 1\n```",
        "    y = x\n    return y + 1\n```\nDone.",  # a forced closing opened the block
        "\n    return x + 1",
        "```python\nreturn x + 1\n```",  # not indented
        "```python\ny = x\nif y:\n    y += 1\nreturn y\n```",
        "```python\ny = x\n    return y + 1\n```",  # only its first line was stripped
        "```python\ndef f(x):\n    return x + math.ceil(0.5)\n```",  # relies on the import above
        f"```python\n{PREFIX}    return x + 1\n```",
        f"```python\n{F}```",
        "```python\nfrom __future__ import annotations\ndef f(x: Later) -> Later:\n    return x + 1\n```",
        "def f(x):\n    return x + 1",
    ],
)
def test_a_function_may_be_completed_or_written_anew(answer):
    assert run(answer) == 2


def test_a_header_without_a_docstring_gets_a_body():
    whole = program(f"```python\n{F}```", prefix="def f(x):\n", defines="f")
    assert whole == f"def f(x):\n    pass\n\n{F}"


LINES = st.sampled_from(
    ["```", "```python", "~~~", "    ```", "def f():", "    return 1", "", "prose", "</think>", "x = 1"]
)


@given(st.lists(LINES, max_size=12), st.sampled_from(["", PREFIX]))
def test_whatever_is_found_stands_in_the_answer(lines, prefix):
    answer = "\n".join(lines)
    found = find_program(answer, prefix=prefix, defines="f")
    assert (found.text is None) == bool(found.problem) == (found.span is None)
    if found.text is not None:
        assert found.span is not None
        start, end = found.span
        assert 0 <= start < end <= len(answer)
        assert all(line.strip() in found.text for line in answer[start:end].split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        "```" * 300_000,
        "```\n" * 200_000,
        "```python\n" * 100_000,
        " " * 1_000_000,
        "`" * 1_000_000,
        "x, " * 300_000,
        "for a in " * 100_000,
        "if a" * 250_000,
        "import a" + " " * 1_000_000 + "!",
        "from a" * 200_000,
        "a[" * 500_000,
        "\n" * 1_000_000 + "x",
        " \n" * 500_000,
        "\t" * 500_000 + "return",
    ],
)
def test_a_megabyte_of_anything_is_read_at_once(text):
    started = time.process_time()
    find_program(text, prefix=PREFIX, defines="f")
    assert time.process_time() - started < 3
