"""Texts about single messages: intents, domain events, and the rules of workflows."""


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
    RESUBMITTED = "[green]resubmitted[/green] {intent_id} as {new_id}"
    RESUBMITTED_BEFORE = "{intent_id} was resubmitted before, as {new_id}"
    NONE = "no intents"
    NEXT_PAGE = "next: outrider intent list --after {next}"


class IntentLines:
    LINE = "line {line}: {problem}"
    TOO_LONG = "has more than {most:,} bytes"


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
    PRESET = "preset"
    EXEMPT = "not delayed: transactional messages of the topics {topics}"
    CAP = "{messages} in {per_hours} h, then {when_reached}"
    FREQUENCY_CAP = "frequency cap"
    CANNOT_BE_READ = "{file} cannot be read: {strerror}"
