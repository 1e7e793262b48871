"""Texts about campaigns, phases and runs."""


class Blockers:
    LINE = "[yellow]{code}[/yellow] {message}"
    NOTE = "{code} since {since}"


class Campaign:
    IMPORTING_RECIPIENTS = "importing recipients"
    CREATED = "[green]created[/green] {campaign_id} with {recipients:,} recipients"
    WARNING = "[yellow]warning:[/yellow] {warning}"
    NEXT_START = "next: outrider campaign start {campaign_id} --work"
    NO_AUDIENCE_FILE = "audience.source names {path}, which does not exist"
    CANNOT_BE_READ = "{file} cannot be read: {strerror}"
    NONE = "no campaigns yet; create one with `outrider campaign create FILE`"
    HEADING = "[bold]{name}[/bold]  {recipients:,} recipients"
    NO_PHASES = "no phases"
    NEXT_CONTROL = "next: outrider campaign {action} {campaign_id} {phase}"
    NOT_STARTED = "campaign {campaign_id} has not been started"
    START_HINT = "outrider campaign start {campaign_id}"
    NEXT_APPROVE = "next: outrider run signal {run_id} APPROVE"
    ALL_RUNS = "[bold]{name}, all {runs} runs combined[/bold]"
    LATEST_RUN = "{name}, latest run"
    ENDING = "{phase} is [bold]{state}[/bold]  run {run_id}"
    WAITS_FOR = "it is waiting for {waits_for}"
    NEXT_DOUBTS = "next: outrider doubts list --run {run_id}"
    NEXT_RUN_CERTIFICATE = "next: outrider run certificate {run_id}"
    ROLLOUT_STEP = "  step {step}: {percent:g} %, {items:,} items, {state}{note}"
    ROLLOUT_HOLD_UNTIL = " until {hold_until}"
    ROLLOUT_HALTED_FOR = ", paused the launch for {rates}"
    ROLLOUT_RELEASED_BY = ", released by {released_by}"


class CampaignControls:
    PAUSE_HELP = "Pause the running phase: calls in progress finish, and no new ones start."
    RESUME_HELP = "Resume the paused phase where it left off."
    STOP_HELP = (
        "Stop the running phase: items not attempted yet are skipped. `retry` can pick them up"
        " later."
    )
    RETRY_HELP = (
        "Retry a failed phase: a new run for the items that failed or were stopped, and no others."
    )
    NO_RUN = "the launch of campaign {campaign_id} has not been started"
    ADVANCED = "the next step of the rollout is [green]released[/green]  run {run_id}"
    DECIDED = "the last step is sent [green]{variant}[/green] of {message_id}  run {run_id}"
    DECIDED_BEFORE = "{variant} of {message_id} was chosen before  run {run_id}"
    NO_VARIANTS = "no message of this launch has variants  run {run_id}"
    VARIANTS = "[bold]{message_id}[/bold]{note}"
    VARIANTS_AWAIT = ": the last step waits until one is chosen"
    VARIANTS_WINNER = ": {variant} was chosen by {decided_by}"
    VARIANT = (
        "  {variant}: {items:,} assigned, {sent:,} sent; delivered {delivered:.1%},"
        " read {read:.1%}, replied {replied:.1%}"
    )
    NOT_ADVANCED = "every step of the rollout was released before  run {run_id}"
    ALL_NEEDS_WORK = "--all can only be used with --work"
    WORK_IS_LOCAL = "--work runs on this machine and cannot be used with --server"
    WORK_IS_LOCAL_HINT = "remove --server, or start a worker there with `outrider work`"
    NEXT_WORK = "next: run `outrider work`, and follow with `outrider campaign watch {campaign_id}`"
    IN_RUN = "  run {run_id}"
    WAITS_FOR = ", waiting for {waits_for}"


class PhaseWords:
    WAITS_FOR = "waiting for {waits_for}"
    FOR = "for {scheduled_for}"


class Run:
    HEADING = "run {run_id}  [bold]{status}[/bold]  {phase}"
    NO_JOBS = "no jobs"
    JOB_FOUND = "job {job_id}  [bold]{target}[/bold]"
    NEXT_JOBS = "next: outrider run jobs {run_id} --after {next}"
    HOLDS = "[bold green]holds[/bold green]"
    DOES_NOT_HOLD = "[bold red]does not hold[/bold red]"
    CERTIFICATE = "[bold]Launch certificate[/bold] for run {run_id}: {verdict}"
    RECEIPTS = "  as reported by receipts, for {reported:,} of {sent:,} sent: {terms}"
    HELD = "  held back for a while by the policy: {items:,} recipients ({waited_for})"
    LEDGER_DIGEST = "  ledger digest {ledger_digest}"
    NEXT_RUN_EXPLAIN = "next: outrider run explain {run_id}"
    NO_ROW = "run {run_id} has no ledger row for recipient {recipient_id}"
    NO_ROW_HINT = (
        "the run is {status}: the recipient may not have been reached yet, or the ID is wrong"
    )


class RunLog:
    NEXT_PAGE = "next: outrider run events {run_id} --after {next}"
    NO_EVENTS = "no events"
    HEADING = "run {run_id}  [bold]{status}[/bold]  at event {last_event_seq}"
    CANCEL_REQUESTED = "cancellation was requested"
    ROOT_CAUSE = "root cause: {root_cause}"
    JOBS = "{jobs:,} jobs"
    NO_JOBS = "no job has started"
    MORE = "and {more:,} more; use --json to see all of them"


class RunRepointing:
    NOTHING_TO_MOVE = "nothing to move: the addresses of its targets have not changed"
    HELD_HINT = "some jobs are held by workers; run this again when they are done"


class RunSignals:
    NO_CHANGE = "accepted; nothing changed"
    DONE = "{signal} {how}  (event {run_seq} of run {run_id})"


class Watching:
    DOES_NOT_ADD_UP = "the accounting of run {run_id} does not add up: {accounting}"
    IN_DOUBT_NOTE = "[yellow]{in_doubt:,} in doubt[/yellow]"
    FAILED = "[red]{failed:,} failed[/red]"
    NO_PHASE = "the campaign has no phase '{phase}'"
    IN_DOUBT = " [yellow]{doubts:,} in doubt[/yellow]"
