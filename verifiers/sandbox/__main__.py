"""`python -m verifiers.sandbox doctor`: what the sandbox can do here, why not more, and what to do about it."""

from __future__ import annotations

import sys
import warnings

from verifiers.sandbox.capabilities import capabilities
from verifiers.sandbox.pool import Sandbox
from verifiers.sandbox.types import SandboxUnavailable, Tier

_USAGE = "usage: python -m verifiers.sandbox doctor"


def main(arguments: list[str]) -> int:
    """0 if programs are fully shut in here, 1 if not, 2 for another command."""
    if arguments != ["doctor"]:
        print(_USAGE, file=sys.stderr)
        return 2
    for found in capabilities():
        print(f"{'yes' if found.works else 'no':4}{found.name:34}{found.detail}")
        if found.fix:
            print(f"    {'':34}fix: {found.fix}")
    with warnings.catch_warnings(), Sandbox(workers=1, tier=Tier.PROCESS) as sandbox:
        warnings.simplefilter("ignore")
        try:
            tier = sandbox.tier
        except SandboxUnavailable as error:
            print(f"no sandbox works here: {error}")
            return 1
    print(f"tier: {tier}")
    if tier is not Tier.FULL:
        print("the default requires tier full; REASONING_SANDBOX_TIER accepts less")
    return 0 if tier is Tier.FULL else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
