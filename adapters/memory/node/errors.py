"""What the embedded kubelet refuses, in the real one's words."""

from typing import Final

from grpc import StatusCode

from domain.errors import MemifError

_GO_SPELLING: Final = {StatusCode.OK: "OK", StatusCode.CANCELLED: "Canceled"}


class Refused(MemifError):
    """The kubelet refuses something; the text is what it would log or put into a pod's status."""


class PluginFailed(Refused):
    """A call to the plugin failed, with the text that Go's gRPC makes of a status."""

    def __init__(self, code: StatusCode, details: str) -> None:
        super().__init__(f"rpc error: code = {go_name(code)} desc = {details}")
        self.code = code
        self.details = details


class KubeletCrashed(AssertionError):
    """The plugin did what crashes the real kubelet, so the test or demo that let it do so has failed."""


def go_name(code: StatusCode) -> str:
    """Return a status code as Go prints it: ``FailedPrecondition``, and ``Canceled`` with one ``l``."""
    return _GO_SPELLING.get(code) or "".join(word.title() for word in code.name.split("_"))
