"""All keys of the configuration."""

from collections.abc import Iterator
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo

from app.settings.consistency import contradictions
from app.settings.faults import Contradictions, KeyPath, shown
from app.settings.pools import PoolSettings
from app.settings.sections import (
    ControlSettings,
    HttpSettings,
    KubeletSettings,
    LogSettings,
    ReconcileSettings,
    RuntimeSettings,
)
from app.settings.values import AbsolutePath
from domain.pool import Pool

VERSION: Final = 1
"""Of the configuration's format."""


def _version(value: int) -> int:
    if value != VERSION:
        raise ValueError(f"must be {VERSION}, the only format that this version reads, not {shown(value)}")
    return value


class Settings(BaseModel):
    """The whole configuration, consistent in itself.

    ``Settings()`` are the defaults; :func:`app.settings.load` reads file, environment and flags.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Annotated[int, AfterValidator(_version)] = VERSION
    pools: Annotated[tuple[PoolSettings, ...], Field(strict=False)] = (PoolSettings(),)
    runtime: RuntimeSettings = RuntimeSettings()
    kubelet: KubeletSettings = KubeletSettings()
    state: AbsolutePath = "/var/lib/memif-device-plugin/state.db"
    control: ControlSettings = ControlSettings()
    http: HttpSettings = HttpSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    log: LogSettings = LogSettings()
    drain_on_exit: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        faults = tuple(contradictions(self.pools, self.kubelet, self.control, self.state))
        if faults:
            raise Contradictions(faults)
        return self

    @property
    def lock(self) -> str:
        """Where two processes of one node agree which is the active one."""
        return f"{self.state.rpartition('/')[0]}/lock"

    @property
    def domain_pools(self) -> tuple[Pool, ...]:
        """The pools that the domain works with, in the order of the configuration."""
        return tuple(pool.to_domain() for pool in self.pools)


def section(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a key that holds further keys."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def leaves(model: type[BaseModel] = Settings, above: KeyPath = ()) -> Iterator[tuple[KeyPath, FieldInfo]]:
    """Yield every key that holds a value, in the order of the file; the list of pools is one of them."""
    for name, field in model.model_fields.items():
        inner = section(field)
        if inner is None:
            yield (*above, name), field
        else:
            yield from leaves(inner, (*above, name))
