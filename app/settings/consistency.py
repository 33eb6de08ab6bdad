"""What values must not be together, each rule a function that yields a fault for every breach."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Final

from app.settings.faults import Fault, KeyPath, shown
from app.settings.lists import largest_capacity, largest_list, shared_id
from app.settings.pools import PoolSettings
from app.settings.sections import ControlSettings, KubeletSettings
from app.settings.values import LONGEST_SOCKET
from domain.answer import POD_FILE, SECRET_FILE
from domain.device_info import file_name
from domain.identity import DeviceId
from domain.pool import LARGEST_LIST, LONGEST_SOCKET_PATH

_DIFFERENT: Final = {
    "resource": "the kubelet has one plugin for a resource",
    "container_dir": "the kubelet keeps one of two mounts on the same place",
    "env_suffix": "the kubelet keeps one of two variables with the same name",
    "annotation_prefix": "the kubelet keeps one of two annotations with the same name",
}
"""Keys in which no two pools may agree, and why: one container may hold devices of both."""

_SESSION: Final = "x" * 8
_LOCK: Final = "lock"
_LONGEST_NAME: Final = 255
"""Bytes of a file's name."""


def contradictions(
    pools: Sequence[PoolSettings], kubelet: KubeletSettings, control: ControlSettings, state: str
) -> Iterator[Fault]:
    """Yield everything in the settings that does not go together."""
    for index, pool in enumerate(pools):
        for rule in _POOL_RULES:
            yield from rule(("pools", index), pool)
    for (first, one), (second, other) in combinations(enumerate(pools), 2):
        for between in _PAIR_RULES:
            yield from between(("pools", first), one, ("pools", second), other)
    yield from _sockets_fit(kubelet, len(pools))
    yield from _endpoint_is_ours(kubelet)
    yield from _places_differ(kubelet, control, state)
    yield from _outside_the_plugin_directory(kubelet, control, state)


def _list_fits(key: KeyPath, pool: PoolSettings) -> Iterator[Fault]:
    """The kubelet receives lists with gRPC's default limit, and drops the plugin for a larger one."""
    size = largest_list(pool)
    if size > LARGEST_LIST:
        most = largest_capacity(pool, LARGEST_LIST)
        yield Fault(
            key=(*key, "capacity"),
            text=f"{pool.capacity} devices make a list of {size} bytes, and the kubelet takes {LARGEST_LIST}: "
            f"with these ids at most {most} fit",
            others=((*key, "device_id"), (*key, "resource"), (*key, "numa_node")),
        )


def _host_socket_fits(key: KeyPath, pool: PoolSettings) -> Iterator[Fault]:
    length = pool.sample().longest_host_socket
    if length > LONGEST_SOCKET_PATH:
        yield Fault(
            key=(*key, "host_dir"),
            text=f"the sockets' paths on the host would have {length} bytes, at most {LONGEST_SOCKET_PATH} are "
            "allowed: shorten host_dir or socket_name",
            others=((*key, "socket_name"),),
        )


def _container_socket_fits(key: KeyPath, pool: PoolSettings) -> Iterator[Fault]:
    length = len(pool.sample().container_socket.encode())
    if length > LONGEST_SOCKET_PATH:
        yield Fault(
            key=(*key, "container_dir"),
            text=f"the socket's path in the container would have {length} bytes, at most {LONGEST_SOCKET_PATH} are "
            "allowed: shorten container_dir or socket_name",
            others=((*key, "socket_name"),),
        )


def _socket_has_a_name_of_its_own(key: KeyPath, pool: PoolSettings) -> Iterator[Fault]:
    taken = {
        SECRET_FILE: ("secret_delivery", pool.secret_delivery.in_directory),
        POD_FILE: ("pod_file", pool.pod_file),
    }
    cause, delivered = taken.get(pool.socket_name, ("", False))
    if delivered:
        yield Fault(
            key=(*key, "socket_name"),
            text=f"must not be {pool.socket_name}, the name of the file that {cause} puts into the same directory",
            others=((*key, cause),),
        )


def _device_info_fits(key: KeyPath, pool: PoolSettings) -> Iterator[Fault]:
    if pool.device_info_dir is None:
        return
    sample = pool.sample()
    last = DeviceId(sample.device(pool.capacity - 1))
    length = len(file_name(sample.resource, last).encode())
    if length > _LONGEST_NAME:
        yield Fault(
            key=(*key, "device_id"),
            text=f"the names of device-info files would have {length} bytes, at most {_LONGEST_NAME} are allowed: "
            "shorten device_id",
            others=((*key, "resource"), (*key, "device_info_dir"), (*key, "capacity")),
        )


def _device_info_has_a_place_of_its_own(key: KeyPath, pool: PoolSettings) -> Iterator[Fault]:
    if pool.device_info_dir is not None and _inside(pool.device_info_dir, pool.host_dir):
        yield Fault(
            key=(*key, "device_info_dir"),
            text=f"must not be inside host_dir, {pool.host_dir}, which holds the allocations' directories alone",
            others=((*key, "host_dir"),),
        )


def _pools_differ(one_key: KeyPath, one: PoolSettings, key: KeyPath, other: PoolSettings) -> Iterator[Fault]:
    for name, why in _DIFFERENT.items():
        value = getattr(one, name)
        if value == getattr(other, name):
            yield Fault(
                key=(*key, name),
                text=f"must differ from that of pool {one_key[-1]}, both are {shown(value)}: {why}",
                others=((*one_key, name),),
            )


def _directories_are_apart(one_key: KeyPath, one: PoolSettings, key: KeyPath, other: PoolSettings) -> Iterator[Fault]:
    """One pool's sweep would meet the other's directories."""
    first, second = _folded(one.host_dir), _folded(other.host_dir)
    if first == second:
        relation = "must differ from"
    elif second.startswith(f"{first}/"):
        relation = "must not be inside"
    elif first.startswith(f"{second}/"):
        relation = "must not contain"
    else:
        return
    yield Fault(
        key=(*key, "host_dir"),
        text=f"{relation} that of pool {one_key[-1]}: {other.host_dir} and {one.host_dir}",
        others=((*one_key, "host_dir"),),
    )


def _device_info_is_apart(one_key: KeyPath, one: PoolSettings, key: KeyPath, other: PoolSettings) -> Iterator[Fault]:
    """No pool's files are in another's base directory, nor have the names of another's."""
    for first_key, first, second_key, second in ((one_key, one, key, other), (key, other, one_key, one)):
        if first.device_info_dir is not None and _inside(first.device_info_dir, second.host_dir):
            yield Fault(
                key=(*first_key, "device_info_dir"),
                text=f"must not be inside the host_dir of pool {second_key[-1]}, {second.host_dir}",
                others=((*second_key, "host_dir"),),
            )
    same = one.device_info_dir is not None and one.device_info_dir == other.device_info_dir
    if same and one.resource != other.resource and one.resource.replace("/", "-") == other.resource.replace("/", "-"):
        yield Fault(
            key=(*key, "device_info_dir"),
            text=f"must differ from that of pool {one_key[-1]}: without slashes both resources are "
            f"{one.resource.replace('/', '-')}, and so are the names of their files",
            others=((*one_key, "device_info_dir"), (*one_key, "resource"), (*key, "resource")),
        )


def _ids_are_apart(one_key: KeyPath, one: PoolSettings, key: KeyPath, other: PoolSettings) -> Iterator[Fault]:
    """The kubelet looks a device's health up by its id alone, across all resources."""
    device = None if one.resource == other.resource else shared_id(one, other)
    if device is not None:
        yield Fault(
            key=(*key, "device_id"),
            text=f"must make other ids than pool {one_key[-1]} does, both have {shown(device)}: the kubelet tells "
            "devices of all resources apart by id alone",
            others=tuple((*pool, name) for pool in (one_key, key) for name in ("device_id", "resource", "capacity")),
        )


def _sockets_fit(kubelet: KubeletSettings, pools: int) -> Iterator[Fault]:
    number = max(10, pools)  # two digits at least: pools that left the file are served until they are empty
    ours = f"{kubelet.plugin_dir}/{kubelet.endpoint_stem}.{_SESSION}-{number}.sock"
    for name, path in (("endpoint", ours), ("socket", kubelet.socket_path)):
        length = len(path.encode())
        if length > LONGEST_SOCKET:
            yield Fault(
                key=("kubelet", name),
                text=f"the socket's path {path} would have {length} bytes, at most {LONGEST_SOCKET} are allowed: "
                f"shorten plugin_dir or {name}",
                others=(("kubelet", "plugin_dir"),),
            )


def _endpoint_is_ours(kubelet: KubeletSettings) -> Iterator[Fault]:
    if kubelet.endpoint == kubelet.socket:
        yield Fault(
            key=("kubelet", "endpoint"),
            text=f"must differ from kubelet.socket, both are {shown(kubelet.endpoint)}",
            others=(("kubelet", "socket"),),
        )


def _places_differ(kubelet: KubeletSettings, control: ControlSettings, state: str) -> Iterator[Fault]:
    """Whoever binds a socket replaces what has its path, also another program's living socket."""
    places: list[tuple[KeyPath, str]] = [
        (("state",), state),
        (("state",), f"{_directory(state)}/{_LOCK}"),
        (("kubelet", "pod_resources"), kubelet.pod_resources),
        (("control", "socket"), control.socket),
    ]
    if control.agent_socket is not None:
        places.append((("control", "agent_socket"), control.agent_socket))
    for (first, one), (second, other) in combinations(places, 2):
        if _folded(one) == _folded(other):
            text = f"must not be {other}"
            text += ", the lock beside it" if first == second else f", which {'.'.join(map(str, first))} uses"
            yield Fault(key=second, text=text, others=(first,))


def _outside_the_plugin_directory(kubelet: KubeletSettings, control: ControlSettings, state: str) -> Iterator[Fault]:
    places = [(("state",), state), (("control", "socket"), control.socket)]
    if control.agent_socket is not None:
        places.append((("control", "agent_socket"), control.agent_socket))
    for key, path in places:
        if _directory(_folded(path)) == _folded(kubelet.plugin_dir):
            yield Fault(
                key=key,
                text=f"must not be in {kubelet.plugin_dir}: the kubelet empties that directory when it starts",
                others=(("kubelet", "plugin_dir"),),
            )


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _inside(path: str, directory: str) -> bool:
    return f"{_folded(path)}/".startswith(f"{_folded(directory)}/")


def _folded(path: str) -> str:
    """Return a path under the name that it has on nearly every node: ``/var/run`` is a link to ``/run``."""
    return path.removeprefix("/var") if f"{path}/".startswith("/var/run/") else path


_POOL_RULES: Final[tuple[Callable[[KeyPath, PoolSettings], Iterator[Fault]], ...]] = (
    _list_fits,
    _host_socket_fits,
    _container_socket_fits,
    _socket_has_a_name_of_its_own,
    _device_info_fits,
    _device_info_has_a_place_of_its_own,
)
_PAIR_RULES: Final[tuple[Callable[[KeyPath, PoolSettings, KeyPath, PoolSettings], Iterator[Fault]], ...]] = (
    _pools_differ,
    _directories_are_apart,
    _device_info_is_apart,
    _ids_are_apart,
)
