"""The resync rules over the life of a node: what may still be mounted is never removed, and in the end nothing is left.

The node is that of :mod:`tests.unit.resync_world`, the plugin that of :mod:`tests.unit.resync_plugin`; hypothesis
decides what happens to them.
"""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from domain.evidence import ObjectState
from domain.identity import PodUid
from domain.ledger import Standing
from tests.unit.domain_values import device_ids
from tests.unit.resync_forgers import FORMS, MOUNTS, Forgery, forge
from tests.unit.resync_plugin import GRACE, Plugin
from tests.unit.resync_world import POOL, SOON, USING, Node, orphan

CONTAINERS = ("init", "app")
uids = st.integers(0, 2).map(lambda number: PodUid(f"uid-{number}"))
devices = st.lists(st.integers(0, POOL.capacity - 1), min_size=1, max_size=2, unique=True)
moments = st.sampled_from((0.0, 0.1, SOON, GRACE + 1, GRACE + 1))

forgeries = st.builds(
    Forgery,
    uid=uids | st.sampled_from((PodUid("forger-1"), PodUid("forger-2"), None)),
    place=st.integers(0, 7),
    leaked=st.booleans(),
    form=st.sampled_from(("whole",) * 5 + FORMS),
    mounts=st.sampled_from(("in its place",) * 3 + MOUNTS),
    on_sandbox=st.sampled_from((False,) * 6 + (True,)),
    state=st.sampled_from((ObjectState.RUNNING, ObjectState.RUNNING, ObjectState.CREATED, ObjectState.EXITED)),
)

seldom = st.sampled_from((False, False, False, True))


class NodeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.node = Node()
        self.plugin = Plugin(self.node)

    # ------------------------------------------------------------------------------------------------------- pods

    @initialize()
    def a_pod_is_running(self) -> None:
        self.a_pod_is_admitted(PodUid("uid-0"), [[0], [0]], stored=True, overtaken=False)
        self.its_containers_start(PodUid("uid-0"), announced=True, appears=True)

    @rule(uid=uids, wanted=st.lists(devices, min_size=1, max_size=2), stored=st.booleans(), overtaken=st.booleans())
    def a_pod_is_admitted(self, uid: PodUid, wanted: list[list[int]], *, stored: bool, overtaken: bool) -> None:
        """Devices may be anybody's.  A pod that was there before is a static one, whose answers are replayed if the
        kubelet still has them.  The last answer may be stored a little later, or never."""
        node = self.node
        if uid in node.pods:
            return
        node.pods[uid] = frozenset(CONTAINERS[: len(wanted)])
        node.forget()
        for container, indexes in zip(CONTAINERS, wanted, strict=False):
            node.store()
            if (uid, container) not in node.memory:
                granted = self.plugin.allocate(list(device_ids(*indexes, pool=POOL)), overtaken=overtaken)
                node.answer(uid, container, granted)
        if stored:
            node.store()

    @rule(uid=uids, announced=st.booleans(), appears=st.booleans())
    def its_containers_start(self, uid: PodUid, *, announced: bool, appears: bool) -> None:
        """For the first time or again; unannounced while the kubelet waits for the plugin to register."""
        node = self.node
        for container in sorted(node.pods.get(uid, ())):
            entry = node.memory.get((uid, container))
            if entry is None:
                continue
            node.sandbox(uid)
            if not announced:
                node.create(entry, announced=False)
            elif self.plugin.pre_start(entry.devices):
                node.starting.append(entry)
        if appears:
            node.appear()

    @rule(uid=uids, state=st.sampled_from((ObjectState.EXITED, ObjectState.PAUSED)), tidied=st.booleans())
    def its_containers_end(self, uid: PodUid, state: ObjectState, *, tidied: bool) -> None:
        """And are tidied away, as everything of a pod that is not wanted any more."""
        node = self.node
        for key, each in tuple(node.objects.items()):
            if each.uid == uid and each.mounts and each.state in USING:
                node.objects[key] = replace(each, state=state)
                if tidied and state is ObjectState.EXITED:
                    del node.objects[key]

    @rule(uid=uids, how=st.sampled_from(("gracefully", "by force", "by force, and forgotten")))
    def it_is_deleted(self, uid: PodUid, how: str) -> None:
        """By force, or by taking a static pod's manifest away: its containers stay, and may even still appear."""
        node = self.node
        node.pods.pop(uid, None)
        if how == "gracefully":
            node.tidy(uid)
        if how == "by force, and forgotten":
            node.forget()
            node.write()

    @rule(uid=uids)
    def it_is_deleted_while_its_containers_start(self, uid: PodUid) -> None:
        """The kubelet forgets it between the announcement of its containers and their appearance."""
        self.its_containers_start(uid, announced=True, appears=False)
        self.it_is_deleted(uid, "by force, and forgotten")
        self.the_plugin_reconciles(before=0.1, between=0.0, lost="nothing")

    # ---------------------------------------------------------------------------------------------------- forgers

    @precondition(lambda self: self.plugin.phase != "all read")
    @rule(forgery=forgeries)
    def a_tenant_claims_something(self, forgery: Forgery) -> None:
        """Not between the look at the runtime and what follows from it: a host path may be mounted at any time, and
        whoever mounts what the plugin lets go at that very moment loses it."""
        forge(self.node, forgery)

    @precondition(lambda self: self.plugin.letting_go & self.node.granted.keys())
    @rule()
    def somebody_mounts_what_is_being_let_go(self) -> None:
        """The plugin died in the middle, and has not come back to it yet."""
        name = min(self.plugin.letting_go & self.node.granted.keys())
        mount = Forgery(
            uid=PodUid("forger-1"),
            place=list(self.node.granted).index(name),
            leaked=True,
            form="whole",
            mounts="elsewhere",
            on_sandbox=False,
            state=ObjectState.RUNNING,
        )
        forge(self.node, mount)
        self.the_plugin_reconciles(before=0.1, between=0.0, lost="nothing")

    @precondition(lambda self: self.node.forged)
    @rule(first=st.booleans())
    def a_forger_leaves(self, *, first: bool) -> None:
        leaving = sorted(self.node.forged)[0 if first else -1]
        self.node.forged.discard(leaving)
        self.node.objects.pop(leaving, None)

    # ------------------------------------------------------------------------------------------- kubelet, runtime

    @rule(what=st.sampled_from(("stores", "is listed", "is sent devices", "restarts", "loses its file", "loses all")))
    def something_happens_to_the_kubelet(self, what: str) -> None:
        node = self.node
        if what == "stores":
            node.store()
        if what == "is listed":
            node.forget()
        if what in {"loses its file", "loses all"}:
            node.file = None
        if what in {"restarts", "loses all"}:
            node.restart_kubelet()
        if what in {"is sent devices", "loses all"}:
            node.write()

    @rule(seconds=moments)
    def time_passes(self, seconds: float) -> None:
        self.node.advance(seconds)

    # ----------------------------------------------------------------------------------------------------- plugin

    @rule(
        lost=st.sampled_from(("nothing", "journal", "record", "both")),
        rebooted=st.sampled_from((None, None, True, False)),
    )
    def the_plugin_restarts(self, lost: str, *, rebooted: bool | None) -> None:
        """After a crash, or with the node: then directories are gone, and what the runtime remembers has ended.  The
        plugin is back before the kubelet starts anything."""
        if rebooted is not None:
            self.node.reboot(objects_survive=rebooted)
        self.plugin.restart(journal_lost=lost in {"journal", "both"}, record_lost=lost in {"record", "both"})

    @rule()
    def a_crash_leaves_a_directory(self) -> None:
        orphan(self.node)

    @rule()
    def somebody_removes_directories_that_nobody_mounts(self) -> None:
        using = {path for each in self.node.objects.values() for path in each.mounts.values()}
        announced = {name for entry in self.node.starting for name in entry.named()}
        for name in tuple(self.node.directories):
            if self.node.path(name) not in using and name not in announced:
                del self.node.directories[name]

    @precondition(lambda self: self.plugin.phase == "idle")
    @rule(lost=seldom)
    def the_plugin_reads_the_kubelets_file(self, *, lost: bool) -> None:
        self.plugin.read_checkpoint(lost=lost)

    @precondition(lambda self: self.plugin.phase == "record read")
    @rule(lost=seldom, blank=seldom)
    def then_the_plugin_reads_the_runtime(self, *, lost: bool, blank: bool) -> None:
        """Which may have just started and show nothing yet, although the kubelet has pods."""
        self.plugin.read_runtime(lost=lost, blank=blank and bool(self.node.pods))

    @precondition(lambda self: self.plugin.phase == "all read")
    @rule(dies=st.booleans())
    def at_last_the_plugin_plans(self, *, dies: bool) -> None:
        """By what it read, however long ago; it may die in the middle of a release."""
        self.plugin.reconcile(dies_releasing=dies)

    @rule(
        before=moments,
        between=st.sampled_from((0.0, 0.1)),
        lost=st.sampled_from(("nothing",) * 4 + ("record", "runtime", "pods")),
        dies=seldom,
    )
    def the_plugin_reconciles(self, before: float, between: float, lost: str, *, dies: bool = False) -> None:
        self.node.advance(before)
        self.plugin.read_checkpoint(lost=lost == "record")
        self.node.advance(between)
        self.plugin.read_runtime(lost=lost == "runtime", blank=lost == "pods" and bool(self.node.pods))
        self.node.advance(between)
        self.plugin.reconcile(dies_releasing=dies)

        live = {each.id for each in self.plugin.ledger.live()}
        assert live <= self.node.directories.keys()

    # --------------------------------------------------------------------------------------------------- promises

    @invariant()
    def what_is_mounted_is_there(self) -> None:
        using = {path for each in self.node.objects.values() if each.state in USING for path in each.mounts.values()}

        assert using <= {self.node.path(name) for name in self.node.directories}

    @invariant()
    def path_and_secret_stay(self) -> None:
        for record in self.plugin.ledger:
            now, then = record.allocation, self.node.due[record.allocation.id]

            assert (now.host_socket, now.container_socket) == (then.host_socket, then.container_socket)
            assert now.secret.reveal() == then.secret.reveal()
            assert record.standing is not Standing.FORCED

    @invariant()
    def nobody_is_taken_for_the_owner_who_is_not(self) -> None:
        for record in self.plugin.ledger:
            known = record.allocation.owner

            assert (
                known.completed_by(self.node.due[record.allocation.id].owner)
                == self.node.due[record.allocation.id].owner
            )

    def teardown(self) -> None:
        """All but one leave, then the last one, too; each time a day later nothing is left of them."""
        node = self.node
        node.advance(SOON)
        others = {each.uid for each in node.objects.values()} | set(node.pods)
        survivor = min(node.pods, default=None)
        if survivor is not None:
            node.sandbox(survivor)  # a runtime that shows no pod at all is another matter
        self._leave(others - {survivor})
        held = {name for entry in node.memory.values() for name in entry.named()}
        mounted = {path for each in node.objects.values() for path in each.mounts.values()}
        assert {each.id for each in self.plugin.ledger.live()} <= held | {
            name for name in node.directories if node.path(name) in mounted
        }

        self._leave({survivor})
        assert not self.plugin.ledger.records
        assert not self.plugin.remembered
        assert not node.directories

    def _leave(self, leaving: set[PodUid | None]) -> None:
        """Let pods go with all that is theirs, and a day pass; sandboxes without a uid may stay for ever."""
        node = self.node
        for name in node.forged:
            node.objects.pop(name, None)
        for uid in leaving:
            if uid is not None:
                node.pods.pop(uid, None)
            node.tidy(uid)
        node.show(uid=None, container=None, mounts={}, claimed={}, state=ObjectState.EXITED)
        for _ in range(12):
            self.the_plugin_reconciles(before=2 * 3600, between=0.1, lost="nothing")


TestNodeMachine = NodeMachine.TestCase
TestNodeMachine.settings = settings(max_examples=120, stateful_step_count=50)
