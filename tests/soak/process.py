"""What a process holds, as the kernel tells."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Held:
    """Descriptors, threads, and resident memory in KiB."""

    descriptors: int
    threads: int
    memory: int


def held(pid: int) -> Held:
    """Look at a process as it is now."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    lines = dict(line.split(":", 1) for line in text.splitlines())
    return Held(
        descriptors=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        threads=int(lines["Threads"]),
        memory=int(lines["VmRSS"].split()[0]),
    )
