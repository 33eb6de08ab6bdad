"""What is there of a kubelet, where it is looked for and elsewhere; nothing is changed for the answer."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from asyncinotify import Inotify, Mask

from adapters.kubelet.directory import PluginDirectory, reply
from domain.diagnosis.kubelet import KubeletFacts
from domain.reply import Reply

USUAL_ROOTS: Final = (
    "/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
    "/var/lib/rancher/rke2/agent/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
)
"""Root directories of the kubelets of the common distributions."""

_PROC: Final = "/proc"
_ROOT_FLAG: Final = "--root-dir"


def survey(
    directory: PluginDirectory, *, pod_resources: str, roots: Sequence[str] = USUAL_ROOTS, proc: str = _PROC
) -> KubeletFacts:
    """Return what is seen of the kubelet.

    Args:
        directory: the configured plugin directory.
        pod_resources: path of the configured pod-resources socket.
        roots: root directories of kubelets that are looked into besides those of running ones.
        proc: where the kernel shows processes.
    """
    known = tuple(dict.fromkeys((*roots, *_running(Path(proc)))))
    socket = os.path.basename(directory.kubelet_path)  # noqa: PTH119 -- plain strings, as in the configuration
    plugin_dirs = {f"{root}/device-plugins": f"{root}/device-plugins/{socket}" for root in known}
    return KubeletFacts(
        plugin_dir=directory.path,
        obstacle=_obstacle(directory.path),
        socket=directory.kubelet_path,
        reply=directory.kubelet_reply(),
        elsewhere=tuple(
            place for place, path in plugin_dirs.items() if _answers_elsewhere(path, directory.kubelet_path)
        ),
        pod_resources=pod_resources,
        pod_resources_reply=reply(pod_resources),
        pod_resources_elsewhere=tuple(
            path
            for path in (f"{root}/pod-resources/kubelet.sock" for root in known)
            if _answers_elsewhere(path, pod_resources)
        ),
        inotify=_unwatchable(directory.path),
    )


def _running(proc: Path) -> Iterator[str]:
    """Yield the root directories that running kubelets were told to use, as far as we may see them."""
    for process in _processes(proc):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has ended, or is not ours to see
        if os.path.basename(words[0]) == "kubelet":  # noqa: PTH119 -- what a process calls itself
            yield from _given(words)


def _processes(proc: Path) -> Iterable[Path]:
    try:
        return [each for each in proc.iterdir() if each.name.isdecimal()]
    except OSError:
        return ()


def _given(words: list[str]) -> Iterator[str]:
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        root = value if equals else following
        if name == _ROOT_FLAG and root.startswith("/"):
            yield root.rstrip("/")


def _answers_elsewhere(path: str, configured: str) -> bool:
    """Tell whether a kubelet answers at a path that does not lead to the configured one: some distributions link."""
    return os.path.realpath(path) != os.path.realpath(configured) and reply(path) is Reply.ANSWERS


def _obstacle(path: str) -> str | None:
    """Say why no socket can be made in a directory; only asked, not tried, because nothing may be changed."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116 -- plain strings, as in the configuration
            return "it is no directory"
        read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    except FileNotFoundError:
        return "it does not exist"
    except OSError as error:
        return os.strerror(error.errno or 0)
    if read_only:
        return "its file system is read-only"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return "no permission"
    return None


def _unwatchable(path: str) -> str | None:
    """Say why inotify cannot be had; a directory that is missing is watched in its nearest parent."""
    there = path
    while not os.path.isdir(there):  # noqa: PTH112 -- pathlib's raises where we may not look
        there = os.path.dirname(there)  # noqa: PTH120
    try:
        with Inotify() as inotify:
            inotify.add_watch(there, Mask.CREATE | Mask.ONLYDIR)
    except PermissionError:
        return None  # the limits let us try; what may be read, other checks say
    except OSError as error:
        return os.strerror(error.errno or 0)
    return None
