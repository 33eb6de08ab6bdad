"""Whether the kubelet can be met where we look for it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from domain.diagnosis.findings import Finding, doubtful, fine, wrong
from domain.reply import Reply

SOCKET: Final = "kubelet socket"
DIRECTORY: Final = "plugin directory"
POD_RESOURCES: Final = "pod-resources socket"
INOTIFY: Final = "inotify"

_AS_ROOT: Final = "run as root; if this was root, look for denials of SELinux (ausearch -m avc) or AppArmor (dmesg)"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """What was seen of the kubelet.

    Attributes:
        plugin_dir: the configured directory of device plugins.
        obstacle: why no socket can be made in it, ``None`` if one can.
        socket: path of the kubelet's registration socket.
        reply: what connecting to that says.
        elsewhere: other plugin directories in which a kubelet answers.
        pod_resources: path of the kubelet's pod-resources socket.
        pod_resources_reply: what connecting to that says.
        pod_resources_elsewhere: other pod-resources sockets that answer.
        inotify: why the directory cannot be watched, ``None`` if it can.
    """

    plugin_dir: str
    obstacle: str | None
    socket: str
    reply: Reply
    elsewhere: tuple[str, ...]
    pod_resources: str
    pod_resources_reply: Reply
    pod_resources_elsewhere: tuple[str, ...]
    inotify: str | None


def judge(facts: KubeletFacts) -> Iterator[Finding]:
    """Yield what the facts say of the kubelet."""
    yield _socket(facts)
    if facts.reply is not Reply.ABSENT or facts.obstacle is None:
        yield _directory(facts)
    yield _pod_resources(facts)
    yield _inotify(facts)


def _socket(facts: KubeletFacts) -> Finding:
    if facts.reply is Reply.ANSWERS:
        return fine(SOCKET, f"a kubelet answers at {facts.socket}")
    if facts.reply is Reply.DENIED:
        return wrong(SOCKET, f"no permission to connect to {facts.socket}", _AS_ROOT)
    if facts.reply is Reply.REFUSES:
        what = f"{facts.socket} is stale: nobody listens on it, its kubelet is gone"
        cure = "start the kubelet, which replaces it"
    else:
        what = f"there is no kubelet socket {facts.socket}"
        cure = "start the kubelet, or set kubelet.plugin_dir to the directory that it uses"
    if facts.elsewhere:
        places = " and ".join(facts.elsewhere)
        return wrong(SOCKET, f"{what}, but a kubelet answers in {places}", f"set kubelet.plugin_dir to {places}")
    return wrong(SOCKET, what, f"{cure}; in a container, mount the node's {facts.plugin_dir} at the same path")


def _directory(facts: KubeletFacts) -> Finding:
    if facts.obstacle is None:
        return fine(DIRECTORY, f"sockets can be made in {facts.plugin_dir}")
    return wrong(DIRECTORY, f"no socket can be made in {facts.plugin_dir}: {facts.obstacle}", _AS_ROOT)


def _pod_resources(facts: KubeletFacts) -> Finding:
    path = facts.pod_resources
    if facts.pod_resources_reply is Reply.ANSWERS:
        return fine(POD_RESOURCES, f"a kubelet answers at {path}")
    if facts.pod_resources_reply is Reply.DENIED:
        return wrong(POD_RESOURCES, f"no permission to connect to {path}", _AS_ROOT)
    what = f"nobody answers at {path}, so pods are not found by name before their containers run"
    if facts.pod_resources_elsewhere:
        places = " and ".join(facts.pod_resources_elsewhere)
        return wrong(POD_RESOURCES, f"{what}; a kubelet answers at {places}", f"set kubelet.pod_resources to {places}")
    return wrong(
        POD_RESOURCES,
        what,
        "start the kubelet, or set kubelet.pod_resources: it is pod-resources/kubelet.sock below its --root-dir",
    )


def _inotify(facts: KubeletFacts) -> Finding:
    if facts.inotify is None:
        return fine(INOTIFY, "a watch can be had")
    return doubtful(
        INOTIFY,
        f"no watch can be had ({facts.inotify}), so directories are polled",
        "raise fs.inotify.max_user_instances and fs.inotify.max_user_watches with sysctl",
    )
