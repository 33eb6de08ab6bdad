"""``python -m app``: the command line without an installed console script."""

from app.cli import PROGRAM, main

if __name__ == "__main__":
    main(prog_name=PROGRAM)
