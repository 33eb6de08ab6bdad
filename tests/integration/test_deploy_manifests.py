"""The manifests: valid for every Kubernetes that we serve, and no wider than the plugin needs."""

from pathlib import PurePosixPath
from typing import Any

import pytest

from app.settings import Settings, load
from tests.rig.manifests import (
    KUBECTL,
    OVERLAYS,
    configuration_of,
    container_of,
    environment_of,
    only,
    overlay,
    pod_of,
    rendered,
)

pytestmark = pytest.mark.skipif(not KUBECTL.exists(), reason="needs the dependency group `dev`")

VERSIONS = ("1.26", "1.37")
"""The oldest and the newest that we serve: fields come and go in between, and none of ours did."""

each_overlay = pytest.mark.parametrize("name", OVERLAYS)


def mounts(name: str) -> dict[str, dict[str, Any]]:
    """The mounts of an overlay's container by the path in it, each with its volume."""
    volumes = {each["name"]: each for each in pod_of(overlay(name))["volumes"]}
    return {
        each["mountPath"]: {**each, **volumes[each["name"]]} for each in container_of(overlay(name))["volumeMounts"]
    }


def settings_of(name: str, tmp_path: Any) -> Settings:
    """What the daemon makes of an overlay's configuration and variables."""
    file = tmp_path / "plugin.yaml"
    file.write_text(configuration_of(overlay(name)))
    return load(str(file), environ=environment_of(overlay(name)))


def seen_through(name: str, path: str) -> dict[str, Any]:
    """The mount through which the container sees a path."""
    found = mounts(name)
    for parent in (PurePosixPath(path), *PurePosixPath(path).parents):
        if str(parent) in found:
            return found[str(parent)]
    raise AssertionError(f"{path} is not mounted")


def test_there_is_an_overlay_for_every_way_to_run_a_node() -> None:
    assert set(OVERLAYS) == {"containerd", "crio", "docker", "k0s", "k3s", "microk8s"}


@each_overlay
@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_to_the_letter(name: str, version: str) -> None:
    import kubernetes_validate  # type: ignore[import-untyped]  # noqa: PLC0415 -- not in every environment

    for manifest in overlay(name):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_wrong_field_would_have_been_found() -> None:
    import kubernetes_validate  # noqa: PLC0415 -- not in every environment

    manifest = only("DaemonSet", overlay("docker"))
    wrong = {**manifest, "spec": {**manifest["spec"], "updateStrategie": {}}}

    with pytest.raises(kubernetes_validate.ValidationError, match="updateStrategie"):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


@each_overlay
class TestNoRights:
    def test_nothing_is_allowed_at_the_api_server_and_no_token_is_mounted(self, name: str) -> None:
        kinds = sorted(each["kind"] for each in overlay(name))

        assert kinds == ["ConfigMap", "DaemonSet", "Namespace", "ServiceAccount"]
        assert pod_of(overlay(name))["automountServiceAccountToken"] is False
        assert only("ServiceAccount", overlay(name))["automountServiceAccountToken"] is False

    def test_the_container_has_four_of_roots_rights_and_cannot_get_more(self, name: str) -> None:
        context = container_of(overlay(name))["securityContext"]

        assert context == {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "FSETID", "DAC_OVERRIDE", "FOWNER"]},
        }

    def test_the_kernel_and_selinux_confine_it(self, name: str) -> None:
        context = pod_of(overlay(name))["securityContext"]

        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["seLinuxOptions"]["type"]

    def test_it_shares_no_namespace_with_the_node(self, name: str) -> None:
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod_of(overlay(name)).keys()
        assert not any("hostPort" in port for port in container_of(overlay(name))["ports"])


@each_overlay
class TestMounts:
    def test_every_host_path_is_a_directory_and_says_so(self, name: str) -> None:
        paths = [each["hostPath"] for each in pod_of(overlay(name))["volumes"] if "hostPath" in each]

        assert {each["type"] for each in paths} <= {"Directory", "DirectoryOrCreate"}
        assert not any(each["path"].endswith(".sock") for each in paths)

    def test_no_mount_pins_a_single_file(self, name: str) -> None:
        assert not any("subPath" in each or "subPathExpr" in each for each in mounts(name).values())

    def test_none_of_the_nodes_wide_directories_is_writable(self, name: str) -> None:
        wide = {"/", "/etc", "/proc", "/run", "/sys", "/var", "/var/lib", "/var/run"}

        for mount in mounts(name).values():
            assert mount.get("hostPath", {}).get("path") not in wide or mount["readOnly"]

    def test_what_lies_in_run_itself_is_mounted_apart_from_our_own_run(self, name: str) -> None:
        for path, mount in mounts(name).items():
            if mount.get("hostPath", {}).get("path") in {"/run", "/var/run"}:
                assert path.startswith("/host/")

    def test_mounts_of_the_node_come_and_go_here_too(self, name: str) -> None:
        shared = {"/var/lib/kubelet", "/var/run/contiv", runtime_directory(name)}

        for path in shared:
            assert mounts(name)[path]["mountPropagation"] == "HostToContainer"

    def test_what_the_daemon_uses_is_mounted_at_its_nodes_path(self, name: str, tmp_path: Any) -> None:
        settings = settings_of(name, tmp_path)
        (pool,) = settings.pools
        plain = (pool.host_dir, settings.kubelet.plugin_dir, settings.state, settings.control.socket)

        for path in (*plain, settings.kubelet.pod_resources):
            mount = seen_through(name, path)
            assert mount["mountPath"] == mount["hostPath"]["path"]
        for path in plain:
            assert not seen_through(name, path).get("readOnly", False)

    def test_the_parents_are_mounted_of_what_others_make_again(self, name: str, tmp_path: Any) -> None:
        settings = settings_of(name, tmp_path)
        (pool,) = settings.pools

        for directory in (pool.host_dir, settings.kubelet.plugin_dir):
            assert seen_through(name, directory)["mountPath"] == str(PurePosixPath(directory).parent)

    def test_the_runtimes_socket_is_in_a_mounted_directory_that_we_only_read(self, name: str, tmp_path: Any) -> None:
        endpoint = settings_of(name, tmp_path).runtime.endpoint
        assert endpoint is not None
        mount = seen_through(name, endpoint.removeprefix("unix://"))

        assert mount["mountPath"] == runtime_directory(name)
        assert mount["readOnly"] is True

    def test_the_runtime_is_named_so_that_nobody_has_to_guess(self, name: str, tmp_path: Any) -> None:
        assert settings_of(name, tmp_path).runtime.kind not in {"auto", "memory"}


def runtime_directory(name: str) -> str:
    """Where an overlay mounts the directory of the runtime's socket."""
    (path,) = [path for path, mount in mounts(name).items() if mount["name"] == "runtime"]
    return path


@each_overlay
class TestRollout:
    def test_it_is_there_on_every_node_and_evicted_last(self, name: str) -> None:
        pod = pod_of(overlay(name))

        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert pod["priorityClassName"] == "system-node-critical"

    def test_the_new_pod_comes_before_the_old_one_goes(self, name: str) -> None:
        strategy = only("DaemonSet", overlay(name))["spec"]["updateStrategy"]

        assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}

    def test_a_changed_configuration_is_rolled_out(self, name: str) -> None:
        generated = only("ConfigMap", overlay(name))["metadata"]["name"]

        assert mounts(name)["/etc/memif-device-plugin"]["configMap"]["name"] == generated
        assert generated.startswith("memif-device-plugin-")

    def test_probes_ask_the_pages_that_are_made_for_them(self, name: str, tmp_path: Any) -> None:
        container = container_of(overlay(name))
        listening = settings_of(name, tmp_path).http.address

        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
        assert container["ports"] == [{"name": "http", "containerPort": 9599}]
        assert listening == ("0.0.0.0", 9599)  # noqa: S104 -- of the pod, not of the node

    def test_a_hung_daemon_is_restarted_and_a_slow_minute_is_not_its_end(self, name: str) -> None:
        probe = container_of(overlay(name))["livenessProbe"]

        assert 20 <= probe["periodSeconds"] * probe["failureThreshold"] <= 60

    def test_no_service_of_the_namespace_can_set_our_variables(self, name: str) -> None:
        assert pod_of(overlay(name))["enableServiceLinks"] is False

    def test_memory_is_bounded_and_the_processor_is_not(self, name: str) -> None:
        assert container_of(overlay(name))["resources"]["limits"].keys() == {"memory"}


def test_prometheus_finds_the_pods_and_their_port() -> None:
    monitor = only("PodMonitor", rendered("monitoring"))
    daemonset = only("DaemonSet", overlay("docker"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]

    assert monitor["metadata"]["namespace"] == daemonset["metadata"]["namespace"]
    assert monitor["spec"]["selector"] == daemonset["spec"]["selector"]
    assert endpoint["port"] in {port["name"] for port in container_of(overlay("docker"))["ports"]}
    assert endpoint["path"] == "/metrics"
