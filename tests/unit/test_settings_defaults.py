from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import LogFormat, LogLevel, PoolSettings, RuntimeKind, Settings, load
from domain.identity import DeviceId
from domain.pool import DirectoryRules, Pool, SecretDelivery
from domain.resource import ResourceName
from tests.unit.settings_judging import NOTHING, accepted, pool


def test_without_a_file_the_settings_are_those_of_the_contract() -> None:
    settings = load(environ=NOTHING)

    assert settings.model_dump(mode="json") == {
        "version": 1,
        "pools": [
            {
                "resource": "contivpp.io/memif",
                "capacity": 100,
                "device_id": "{resource}/{index}",
                "host_dir": "/var/run/contiv/memif",
                "container_dir": "/run/vpp",
                "socket_name": "memif.sock",
                "env_suffix": "",
                "annotation_prefix": "io.contivpp.memif",
                "directory_mode": "2770",
                "directory_group": None,
                "selinux_label": "auto",
                "secret_length": 20,
                "secret_delivery": "env",
                "pod_file": False,
                "pod_env_extra": False,
                "device_info_dir": None,
                "read_only_mount": False,
                "numa_node": None,
                "list_interval": "0s",
            }
        ],
        "runtime": {"kind": "auto", "endpoint": None, "containerd_namespace": "k8s.io"},
        "kubelet": {
            "plugin_dir": "/var/lib/kubelet/device-plugins",
            "socket": "kubelet.sock",
            "endpoint": "contiv-vpp.sock",
            "pod_resources": "/var/lib/kubelet/pod-resources/kubelet.sock",
        },
        "state": "/var/lib/memif-device-plugin/state.db",
        "control": {
            "socket": "/run/memif-device-plugin/control.sock",
            "mode": "0600",
            "group": None,
            "agent_socket": None,
            "agent_group": None,
        },
        "http": {"listen": "127.0.0.1:9599"},
        "reconcile": {"interval": "30s", "grace": "30s"},
        "log": {"level": "info", "format": "json"},
        "drain_on_exit": False,
    }


def test_the_defaults_themselves_pass_every_rule(tmp_path: Path) -> None:
    """Defaults are not validated when they are used, so that starting costs no time."""
    defaults = Settings().model_dump(mode="json")

    assert accepted(tmp_path, defaults) == Settings()


def test_values_have_the_types_that_the_program_works_with() -> None:
    settings = load(environ=NOTHING)

    assert settings.runtime.kind is RuntimeKind.AUTO
    assert settings.log.level is LogLevel.INFO
    assert settings.log.format is LogFormat.JSON
    assert settings.control.mode == 0o600
    assert settings.reconcile.interval == 30.0
    assert settings.kubelet.socket_path == "/var/lib/kubelet/device-plugins/kubelet.sock"
    assert settings.kubelet.endpoint_stem == "contiv-vpp"
    assert settings.http.address == ("127.0.0.1", 9599)


def test_the_default_pool_is_the_domains() -> None:
    assert PoolSettings().to_domain() == Pool(resource=ResourceName("contivpp.io/memif"))


def test_every_key_of_a_pool_reaches_the_domain(tmp_path: Path) -> None:
    settings = accepted(
        tmp_path,
        pool(
            resource="example.com/net",
            capacity=3,
            device_id="memif-{index}",
            host_dir="/srv/memif",
            container_dir="/net",
            socket_name="x.sock",
            env_suffix="_NET",
            annotation_prefix="example.com/net",
            directory_mode="0750",
            directory_group="vpp",
            selinux_label="none",
            secret_length=16,
            secret_delivery="both",
            pod_file=True,
            pod_env_extra=True,
            read_only_mount=True,
            numa_node=1,
            list_interval="20s",
        ),
    )

    made = settings.pools[0].to_domain()

    assert made == Pool(
        resource=ResourceName("example.com/net"),
        capacity=3,
        device_id="memif-{index}",
        host_dir="/srv/memif",
        container_dir="/net",
        socket_name="x.sock",
        env_suffix="_NET",
        annotation_prefix="example.com/net",
        directory=DirectoryRules(mode=0o750, group="vpp", selinux_label="none"),
        secret_length=16,
        secret_delivery=SecretDelivery.BOTH,
        pod_file=True,
        pod_env_extra=True,
        read_only_mount=True,
        numa_node=1,
        list_interval=20.0,
    )
    assert list(made.indexes) == [DeviceId(f"memif-{index}") for index in range(3)]


def test_no_pools_are_a_configuration(tmp_path: Path) -> None:
    assert accepted(tmp_path, {"pools": []}).pools == ()


def test_settings_do_not_change() -> None:
    settings = Settings()

    with pytest.raises(ValidationError):
        settings.state = "/elsewhere"
    with pytest.raises(ValidationError):
        settings.log.level = LogLevel.DEBUG


def test_settings_made_by_hand_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMIF_DP_STATE", "/srv/elsewhere.db")

    assert Settings() == load(environ=NOTHING)
