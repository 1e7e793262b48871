"""The loops beside requests and jobs, and what workers share with them."""

import os
from functools import cached_property

from outrider import __version__
from outrider.bootstrap.bus import BusRoles
from outrider.bootstrap.receipts import ReceiptRoles
from outrider.bootstrap.workflows import WorkflowRoles
from outrider.domain.ids import WorkerId
from outrider.engines.process_identity import this_host, this_worker
from outrider.files.database_memory import DatabaseMemoryFile
from outrider.files.event_spool import LocalSpool
from outrider.kernel.control.stop_sweeper import StopSweeper
from outrider.kernel.delivery.call_meter import CallMeter
from outrider.kernel.delivery.door_sweeper import DoorSweeper
from outrider.kernel.proof.audit_chainer import AuditChainer
from outrider.kernel.transactions.workers import WorkerCard
from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.kernel.work.database_recogniser import DatabaseRecogniser
from outrider.kernel.work.database_releaser import DatabaseReleaser
from outrider.kernel.work.deadline_expirer import DeadlineExpirer
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.kernel.work.presence_keeper import PresenceKeeper
from outrider.kernel.work.stop_guard import StopGuard


class WorkRoles(ReceiptRoles, WorkflowRoles, BusRoles):
    @cached_property
    def database_recogniser(self) -> DatabaseRecogniser:
        memory = DatabaseMemoryFile(self.settings.spool, self.settings.database_url)
        return DatabaseRecogniser(self.foundation, memory, this_worker())

    @cached_property
    def database_releaser(self) -> DatabaseReleaser:
        return DatabaseReleaser(self.foundation)

    @cached_property
    def stop_guard(self) -> StopGuard:
        return StopGuard(self.foundation)

    @cached_property
    def deadline_expirer(self) -> DeadlineExpirer:
        return DeadlineExpirer(self.foundation)

    @cached_property
    def door_sweeper(self) -> DoorSweeper:
        return DoorSweeper(self.foundation, lambda: self.registry_keeper.contracts())

    @cached_property
    def audit_chainer(self) -> AuditChainer:
        return AuditChainer(self.foundation)

    @cached_property
    def call_meter(self) -> CallMeter:
        """Of all workers of this process."""
        return CallMeter()

    @cached_property
    def presence_keeper(self) -> PresenceKeeper:
        process = WorkerCard(
            this_worker(), "server", this_host(), os.getpid(), __version__, self.settings.engine
        )
        return PresenceKeeper(self.foundation, process)

    def step_recorder(self, worker_id: WorkerId) -> StepRecorder:
        spool = LocalSpool(self.settings.spool, self.ids)
        return StepRecorder(self.foundation, spool, self.settings.state_store.budget(), worker_id)

    @cached_property
    def background_loops(self) -> BackgroundLoops:
        """The loops beside requests and jobs, each once in this process."""
        loops = {
            "watcher": self.watcher.run,
            "presence keeper": self.presence_keeper.run,
            "refusal recorder": self.refusal_recorder.run,
            "projector": self.projector.run,
            "run reconciler": self.run_reconciler.run,
            "event router": self.event_router.run,
            "receipt matcher": self.receipt_matcher.run,
            "rate pauser": self.rate_pauser.run,
            "rollout keeper": self.rollout_keeper.run,
            "sent tallier": self.sent_tallier.run,
            "digester": self.digester.run,
            "deadline expirer": self.deadline_expirer.run,
            "door sweeper": self.door_sweeper.run,
            "intake cleaner": self.audience_writer.clean,
            "registry follower": self.registry_follower.run,
            "audit chainer": self.audit_chainer.run,
            "run sealer": self.run_sealer.run,
            "retention keeper": self.retention_keeper.run,
            "stop sweeper": StopSweeper(self.foundation).run,
            "spool": self.step_recorder(this_worker()).reconcile,
            **{f"bus relay {relay.name}": relay.run for relay in self.bus_relays},
        }
        if isinstance(self.clock, DatabaseClock):
            loops["clock"] = self.clock.run
            loops["database recogniser"] = self.database_recogniser.run
        if not self.engine.polls_queue:
            loops["engine_notifier"] = self.engine_notifier.run
        return BackgroundLoops(loops, self.clock, self.limits)
