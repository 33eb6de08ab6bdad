"""Which processes are at work on the node: this daemon, another of it, a Contiv agent before it."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from domain.diagnosis.findings import Finding, doubtful, fine, wrong

DAEMON: Final = "daemon"
REGISTRATION: Final = "registration"
PLUGIN_SOCKETS: Final = "plugin sockets"


class LockState(Enum):
    """How the lock of a node is found."""

    FREE = auto()
    """Also where there is none yet."""
    HELD = auto()
    HIDDEN = auto()
    """It may not be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """The daemon that answers on the control socket.

    Attributes:
        instance: its name.
        words: what to call it, for people.
        endpoints: the names of its sockets in the plugin directory.
        waiting: why pools are not served yet, by resource.
    """

    instance: str
    words: str
    endpoints: frozenset[str]
    waiting: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """What was seen of processes.

    Attributes:
        lock: path of the lock.
        state: how it was found.
        holder: instance of who holds it, in its own words; ``None`` if it did not say.
        holder_words: what to call the holder, for people.
        control: path of the control socket.
        answering: who answers there, ``None`` if nobody does.
        silence: why nobody answers; empty if somebody does.
        denied: because we may not ask.
        living: names of sockets under our names in the plugin directory that answer.
        dead: names of those that do not.
        endpoint: the name that Contiv's own plugin would use.
        plugin_dir: where these sockets lie.
    """

    lock: str
    state: LockState
    holder: str | None
    holder_words: str
    control: str
    answering: Answering | None
    silence: str
    denied: bool
    living: tuple[str, ...]
    dead: tuple[str, ...]
    endpoint: str
    plugin_dir: str


def judge(facts: InstanceFacts) -> Iterator[Finding]:
    """Yield what the facts say of processes."""
    yield _daemon(facts)
    if facts.answering is not None:
        yield from _registration(facts.answering)
    yield from _sockets(facts)


def _daemon(facts: InstanceFacts) -> Finding:
    if facts.answering is None:
        return _silent(facts)
    words = facts.answering.words
    if facts.state is LockState.HELD and facts.holder not in {None, facts.answering.instance}:
        return wrong(
            DAEMON,
            f"{facts.holder_words} holds {facts.lock}, while {words} answers at {facts.control}",
            "one node has one daemon and one state: stop the one that is not meant to run",
        )
    if facts.state is LockState.FREE:
        return wrong(
            DAEMON,
            f"{words} answers at {facts.control} and does not hold {facts.lock}: it has another state",
            "give this command the daemon's own --config, or stop that daemon",
        )
    return fine(DAEMON, f"{words} serves this node")


def _silent(facts: InstanceFacts) -> Finding:
    if facts.state is LockState.HELD and facts.denied:
        return doubtful(DAEMON, f"{facts.holder_words} holds {facts.lock}; {facts.silence}", "run as root")
    if facts.state is LockState.HELD:
        return wrong(
            DAEMON,
            f"{facts.holder_words} holds {facts.lock} and is not to be reached: {facts.silence}",
            "give this command the daemon's own --config; if the daemon hangs, see its log, then end that process",
        )
    if facts.state is LockState.HIDDEN:
        return doubtful(DAEMON, f"{facts.lock} cannot be seen; {facts.silence}", "run as root")
    return fine(DAEMON, "no daemon runs")


def _registration(answering: Answering) -> Iterator[Finding]:
    for resource, reason in answering.waiting:
        yield doubtful(
            REGISTRATION, f"{resource} is not served: {reason}", "mend what else is found here; the daemon tries again"
        )
    if not answering.waiting:
        yield fine(REGISTRATION, "the kubelet has every pool")


def _sockets(facts: InstanceFacts) -> Iterator[Finding]:
    where = facts.plugin_dir
    found: list[Finding] = []
    if facts.endpoint in facts.living:
        found.append(
            wrong(
                PLUGIN_SOCKETS,
                f"a Contiv agent, or another plugin of its name, serves at {where}/{facts.endpoint}",
                "stop it, or start the daemon with --take-over: two plugins take one resource from each other",
            )
        )
    rivals = [name for name in facts.living if name != facts.endpoint and not _is_the_daemons(name, facts)]
    if rivals:
        found.append(
            wrong(
                PLUGIN_SOCKETS,
                f"another process of this plugin serves in {where}: {', '.join(rivals)}",
                "find it with ss -xlp and stop it",
            )
        )
    if facts.endpoint in facts.dead:
        found.append(
            doubtful(
                PLUGIN_SOCKETS,
                f"{where}/{facts.endpoint} is a dead socket, which a Contiv agent left",
                f"rm {where}/{facts.endpoint}; the kubelet removes it, too, when it starts",
            )
        )
    yield from found or (fine(PLUGIN_SOCKETS, f"no other plugin serves under our names in {where}"),)


def _is_the_daemons(name: str, facts: InstanceFacts) -> bool:
    """Tell whether a socket is the daemon's; one that holds the lock and is silent is given the benefit of doubt."""
    if facts.answering is not None:
        return name in facts.answering.endpoints
    return facts.state is not LockState.FREE
