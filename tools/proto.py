"""Write `adapters/_pb` from the sources in `proto/`, or check that it is what they yield.

`python tools/proto.py` writes what has changed; `python tools/proto.py --check` writes nothing and lists it.
Everything in `adapters/_pb` is made here, byte for byte the same on every machine, because the code
generators are pinned.

protoc lets generated modules import each other by the paths of their sources (`kubelet.…`). Ours live below
`adapters._pb`, so these imports are rewritten, and with them the module that message classes say they are of.

Exit status: 0 all is well; 1 `adapters/_pb` is out of date, or protoc failed; 2 the installed code generators
are not the pinned ones.
"""

import argparse
import difflib
import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

# Generated code refuses a runtime older than its generator: grpcio older than grpcio-tools, protobuf older
# than the protoc inside (7.35.0 in 1.82). So this is the oldest grpcio-tools that can be installed beside
# protobuf 7, not the newest; who moves it up moves up the lower bounds in pyproject.toml.
PINS = {"grpcio-tools": "1.82.1", "mypy-protobuf": "5.1.0"}

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
OUTPUT = ROOT / "adapters" / "_pb"
PACKAGE = "adapters._pb"

PACKAGE_INIT = '''\
"""Generated code: the messages, stubs and servicers of `proto/`, private to the adapters that need them.

Made by `make proto` (`tools/proto.py`) and committed, so that neither a build nor a reader needs protoc. Not
to be edited: change the sources in `proto/`, whose comments document what stands here.
"""
'''


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Write adapters/_pb from proto/.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if anything is out of date")
    check = parser.parse_args().check

    if wrong := list(wrong_tools()):
        print(*wrong, "Install the dependency group `proto`.", sep="\n", file=sys.stderr)
        return 2
    try:
        generated = generate()
    except subprocess.CalledProcessError as error:
        print(f"{error.stderr}protoc failed; nothing was written.", file=sys.stderr)
        return 1
    committed = read(OUTPUT)
    stale = sorted(name for name in generated.keys() | committed.keys() if generated.get(name) != committed.get(name))

    if check and stale:
        for name in stale:
            print(*difference(name, committed.get(name), generated.get(name)), sep="\n", file=sys.stderr)
        print("adapters/_pb is out of date: run `make proto` and commit the result.", file=sys.stderr)
        return 1
    for name in stale:
        put(OUTPUT / name, generated.get(name))
    print(f"adapters/_pb: {len(generated)} files, {len(stale)} changed")
    return 0


def wrong_tools() -> Iterator[str]:
    """Yield a line for each code generator that is missing or not of the pinned version."""
    for name, pinned in PINS.items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = "none"
        if installed != pinned:
            yield f"needed: {name}=={pinned}, installed: {installed}."


def generate() -> dict[str, bytes]:
    """Return all that belongs into `adapters/_pb`, by path.

    Raises:
        subprocess.CalledProcessError: protoc or a plugin failed; `stderr` says why.
    """
    sources = sorted(path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.proto"))
    scripts = Path(sysconfig.get_path("scripts"))
    with tempfile.TemporaryDirectory() as out:
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={SOURCES}"),
            *(f"--plugin={scripts / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")),
            *(f"--python_out={out}", f"--mypy_out=quiet:{out}"),
            *(f"--grpc_python_out={out}", f"--mypy_grpc_out=quiet,only_async:{out}"),
            *sources,
        ]
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - ours alone
        modules = {name: rehome(content) for name, content in read(Path(out)).items()}
    return modules | inits(modules)


def rehome(content: bytes) -> bytes:
    """Return a generated module with the imports of its like, and its own name, moved to `adapters._pb`."""
    roots = "|".join(sorted(path.name for path in SOURCES.iterdir() if path.is_dir()))
    imports = rf"^from (?=(?:{roots})\.[\w.]+ import )"
    own_name = rf"^_builder\.BuildTopDescriptorsAndMessages\(DESCRIPTOR, '(?=(?:{roots})\.)"
    return re.sub(f"{imports}|{own_name}", rf"\g<0>{PACKAGE}.", content.decode(), flags=re.MULTILINE).encode()


def inits(modules: Iterable[str]) -> dict[str, bytes]:
    """Return the `__init__.py` of `adapters/_pb` and of each folder in it, by path."""
    folders = {folder for module in modules for folder in PurePosixPath(module).parents} - {PurePosixPath()}
    texts = {f"{folder}/__init__.py": f'"""Generated from `proto/{folder}`."""\n' for folder in folders}
    return {name: text.encode() for name, text in ({"__init__.py": PACKAGE_INIT} | texts).items()}


def read(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder and of those in it, by path, byte code left out."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


def put(path: Path, content: bytes | None) -> None:
    """Write a file, or remove it if it is to have no content."""
    if content is None:
        path.unlink()
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def difference(name: str, committed: bytes | None, generated: bytes | None) -> Iterator[str]:
    """Yield a line that says what is wrong with a file and, if it has the wrong content, a unified diff."""
    if committed is None:
        yield f"missing: {name}"
    elif generated is None:
        yield f"surplus: {name}"
    else:
        yield f"differs: {name}"
        before, after = (content.decode(errors="replace").splitlines() for content in (committed, generated))
        yield from difflib.unified_diff(before, after, "committed", "generated", lineterm="")


if __name__ == "__main__":
    sys.exit(main())
