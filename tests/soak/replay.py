"""Lives a history again that went wrong: ``python -m tests.soak.replay FILE``, or ``-`` for what is typed.

The file is what a failing test printed.  Says what goes wrong, if it still does, and ends with 1.
"""

import asyncio
import sys
import traceback
from pathlib import Path
from typing import Final

from tests.integration.crash import powered
from tests.integration.history import read, written
from tests.integration.life import trouble

_USAGE: Final = "usage: python -m tests.soak.replay FILE"


def main(arguments: list[str]) -> int:
    """Return the exit code: 0 if all goes well, 1 if not, 2 for a wrong call."""
    match arguments:
        case ["-"]:
            text = sys.stdin.read()
        case [name]:
            text = Path(name).read_text(encoding="utf-8")
        case _:
            print(_USAGE, file=sys.stderr)  # noqa: T201 -- a command's output
            return 2
    history = read(text)
    print(written(history))  # noqa: T201
    with powered() as power:
        error = asyncio.run(trouble(history, power))
    if error is None:
        print("Nothing was lost and nothing is left.")  # noqa: T201
        return 0
    traceback.print_exception(error)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
