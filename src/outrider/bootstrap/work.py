"""The loops beside requests and jobs, and what workers share with them."""

from functools import cached_property

from outrider.bootstrap.bus import BusRoles
from outrider.bootstrap.control import ControlRoles
from outrider.bootstrap.workflows import WorkflowRoles
from outrider.domain.ids import WorkerId
from outrider.engines.process_identity import this_worker
from outrider.files.event_spool import LocalSpool
from outrider.kernel.control.stop_sweeper import StopSweeper
from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.kernel.work.deadline_expirer import DeadlineExpirer
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.kernel.work.stop_guard import StopGuard


class WorkRoles(ControlRoles, WorkflowRoles, BusRoles):
    @cached_property
    def stop_guard(self) -> StopGuard:
        return StopGuard(self.foundation)

    @cached_property
    def deadline_expirer(self) -> DeadlineExpirer:
        return DeadlineExpirer(self.foundation)

    def step_recorder(self, worker_id: WorkerId) -> StepRecorder:
        spool = LocalSpool(self.settings.spool, self.ids)
        return StepRecorder(self.foundation, spool, self.settings.state_store.budget(), worker_id)

    @cached_property
    def background_loops(self) -> BackgroundLoops:
        """The loops beside requests and jobs, each once in this process."""
        loops = {
            "watcher": self.watcher.run,
            "refusal recorder": self.refusal_recorder.run,
            "projector": self.projector.run,
            "run reconciler": self.run_reconciler.run,
            "event router": self.event_router.run,
            "digester": self.digester.run,
            "deadline expirer": self.deadline_expirer.run,
            "intake cleaner": self.audience_writer.clean,
            "registry follower": self.registry_follower.run,
            "stop sweeper": StopSweeper(self.foundation).run,
            "spool": self.step_recorder(this_worker()).reconcile,
            **{f"bus relay {relay.name}": relay.run for relay in self.bus_relays},
        }
        if isinstance(self.clock, DatabaseClock):
            loops["clock"] = self.clock.run
        if not self.engine.polls_queue:
            loops["engine_notifier"] = self.engine_notifier.run
        return BackgroundLoops(loops, self.clock, self.limits)
