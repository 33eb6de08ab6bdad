"""containerd's API is built out of a package that cannot be imported, and nothing of it is ever executed."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

from adapters.containerd import api, descriptors
from adapters.containerd.descriptors import PackageNotUnderstood, Types

CONTAINERS = "containerd/services/containers/v1/containers.proto"
CONTAINER = "containerd.services.containers.v1.Container"

INSTALLED = Path(str(distribution("containerd").locate_file("")))
FILES = sorted(
    str(path.relative_to(INSTALLED)).replace("_pb2.py", ".proto") for path in INSTALLED.glob("containerd/**/*_pb2.py")
)
INTROSPECTION = "containerd/services/introspection/v1/introspection.proto"


def run(code: str) -> str:
    """Run a program of its own, and return what it printed."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


class TestThePackageAsItIs:
    @pytest.mark.parametrize("file", [each for each in FILES if each != INTROSPECTION])
    def test_every_message_of_every_file_can_be_written_and_read(self, file: str) -> None:
        types = Types([file])
        description = descriptor_pb2.FileDescriptorProto()
        types._pool.FindFileByName(file).CopyToProto(description)

        for message in description.message_type:
            kind = types.message(f"{description.package}.{message.name}".removeprefix("."))
            assert kind.FromString(kind().SerializeToString()) == kind()
        assert description.message_type or description.extension

    def test_the_one_file_that_needs_a_description_from_elsewhere_says_so(self) -> None:
        """It is for introspection, of which we read nothing."""
        with pytest.raises(PackageNotUnderstood, match=r"google/rpc/status"):
            Types([INTROSPECTION])

    def test_a_containers_record_keeps_what_it_was_given(self) -> None:
        kind = Types([CONTAINERS]).message(CONTAINER)
        given = kind(id="one", labels={"a": "b"}, image="localhost/busybox:1")
        given.spec.value = b"{}"
        given.extensions["e"].type_url = "t"
        given.updated_at.seconds = 7

        read = kind.FromString(given.SerializeToString())

        assert (read.id, dict(read.labels), read.image) == ("one", {"a": "b"}, "localhost/busybox:1")
        assert (read.spec.value, read.extensions["e"].type_url, read.updated_at.seconds) == (b"{}", "t", 7)

    def test_what_is_not_read_is_skipped_and_not_decoded(self) -> None:
        """Whoever may speak to containerd can give a container a label that is no UTF-8; protobuf refuses such text."""
        whole, ours = Types([CONTAINERS]), Types([CONTAINERS], read={CONTAINER: frozenset({"id"})})
        spoilt = (
            whole.message(CONTAINER)(id="one", labels={"x": "????"}).SerializeToString().replace(b"????", b"\xff" * 4)
        )

        read = ours.message(CONTAINER).FromString(spoilt)

        assert read.id == "one"
        with pytest.raises(Exception, match="UTF-8"):
            whole.message(CONTAINER).FromString(spoilt)

    def test_nothing_gets_into_the_pool_that_all_share(self) -> None:
        """Another copy of containerd's API in the process, such as a plugin's, would clash with ours."""
        api.load()

        with pytest.raises(KeyError):
            descriptor_pool.Default().FindMessageTypeByName(CONTAINER)

    def test_the_package_is_not_imported(self) -> None:
        loaded = run("import sys; from adapters.containerd.api import load; load(); print('containerd' in sys.modules)")

        assert loaded.strip() == "False"

    def test_until_it_is_asked_for_nothing_is_loaded(self) -> None:
        """A daemon that starts has something better to do: the kubelet waits for nobody."""
        loaded = run(
            "import sys; import adapters.containerd.runtime as r;"
            "r.ContainerdRuntime(endpoint='/x', prefixes=(), clock=None);"
            "print([name for name in sys.modules if name.endswith(('containerd.api', 'containerd.descriptors'))])"
        )

        assert loaded.strip() == "[]"

    def test_it_is_loaded_once(self) -> None:
        assert api.load() is api.load()


class Installed:
    """A distribution that is installed somewhere."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def locate_file(self, path: str) -> Path:
        return self.root / path


ANOTHER = descriptor_pb2.FileDescriptorProto(name="another.proto").SerializeToString()
UNSOUND = descriptor_pb2.FileDescriptorProto(name="it.proto")
UNSOUND.message_type.add(name="M").field.add(name="f", number=1, type=11, type_name=".nowhere.Missing")
SOUND = descriptor_pb2.FileDescriptorProto(name="it.proto", package="p")
SOUND.message_type.add(name="M").field.add(name="f", number=1, type=9, label=1)


class TestAPackageThatIsOtherwise:
    """A release that is laid out in another way is refused with words for an operator, not with a traceback."""

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setattr(descriptors, "distribution", lambda _: Installed(tmp_path))
        return tmp_path

    @pytest.mark.parametrize(
        "module, complaint",
        [
            (None, "No such file"),
            ("def", "no Python in"),
            ("\0", "no Python in"),
            ("x = 1", "not one serialized_pb"),
            ("D = f(serialized_pb=b'')\nE = f(serialized_pb=b'')", "not one serialized_pb"),
            ("D = f(serialized_pb='text')", "not one serialized_pb"),
            ("D = f(serialized_pb=g())", "not one serialized_pb"),
            ("D = pool.AddSerializedFile(b'')", "not one serialized_pb"),
            (f"D = f(serialized_pb={b'garbage'!r})", "that is none"),
            (f"D = f(serialized_pb={ANOTHER!r})", "one of 'another.proto'"),
            (f"D = f(serialized_pb={UNSOUND.SerializeToString()!r})", "not sound"),
        ],
    )
    def test_is_refused_with_what_is_wrong_and_the_way_out(
        self, place: Path, module: str | None, complaint: str
    ) -> None:
        if module is not None:
            (place / "it_pb2.py").write_text(module)

        with pytest.raises(PackageNotUnderstood, match=complaint) as caught:
            Types(["it.proto"])

        assert "runtime.kind" in str(caught.value)

    def test_nothing_of_a_module_is_executed(self, place: Path) -> None:
        (place / "it_pb2.py").write_text(f"raise SystemExit\nD = f(serialized_pb={SOUND.SerializeToString()!r})")

        assert Types(["it.proto"]).message("p.M")(f="x").f == "x"

    def test_a_message_or_a_field_that_is_missing_is_named(self, place: Path) -> None:
        (place / "it_pb2.py").write_text(f"D = f(serialized_pb={SOUND.SerializeToString()!r})")

        with pytest.raises(PackageNotUnderstood, match=r"p\.Other"):
            Types(["it.proto"]).message("p.Other")
        with pytest.raises(PackageNotUnderstood, match="missing"):
            Types(["it.proto"], read={"p.M": frozenset({"f", "missing"})})

    def test_one_that_is_not_installed_is_refused_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def nowhere(name: str) -> None:
            raise PackageNotFoundError(name)

        monkeypatch.setattr(descriptors, "distribution", nowhere)

        with pytest.raises(PackageNotUnderstood, match="not installed"):
            Types(["it.proto"])
