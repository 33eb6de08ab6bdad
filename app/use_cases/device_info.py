"""Device information: its files follow the ledger."""

from collections.abc import Iterable

from app.use_cases.state import State
from app.use_cases.storage import Storage
from domain.device_info import DeviceInfo, wanted
from domain.ports.reports import Reports
from domain.ports.sockets import DirectoryUnusable, NoRoom
from domain.ports.worker import Worker


class KeepDeviceInfo:
    """Makes the files be what lives: repairs those that are missing or different, and removes those that nobody needs.

    They are written before an Allocate is answered; everything else can wait for this, a crash in between as well.
    """

    def __init__(self, *, state: State, storage: Storage, worker: Worker, reports: Reports) -> None:
        self._state = state
        self._storage = storage
        self._worker = worker
        self._reports = reports

    async def __call__(self) -> None:
        """Settle every directory; one that cannot be settled is reported.

        Not while an Allocate is in flight: its files are there before the ledger knows why.
        """
        state = self._state
        pools = (*state.pools.values(), *state.earlier)
        if state.in_flight or all(pool.device_info_dir is None for pool in pools):
            return
        infos = wanted(state.pools.values(), state.earlier, state.ledger.live())
        # One job, handed over in this very moment: what is granted after it is written after it.
        await self._worker.run("settling device information", lambda: self._settle(infos))

    def _settle(self, infos: Iterable[DeviceInfo]) -> None:
        for info in infos:
            try:
                settled = self._storage.device_info.settle(info)
            except (DirectoryUnusable, NoRoom) as error:
                self._reports.warn("device information cannot be kept", reason=str(error))
                continue
            if settled.written:
                self._reports.warn(
                    "device information was missing or different and was written again",
                    directory=info.directory,
                    files=len(settled.written),
                )
