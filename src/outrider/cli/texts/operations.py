"""Texts about what happens to messages and what keeps them from being sent: doubts, receipts,
opt-outs, people, targets, workers, alerts and the event bus."""


class Alerts:
    NONE = "no open alerts"
    NEXT_PAGE = "next: outrider alerts --after {next}"


class Bus:
    NO_SINKS = "no sinks are configured; docs/reference/event-bus.md explains OUTRIDER_BUS"
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


class Doubts:
    NONE = "nothing is in doubt"
    UNCHECKED = "not checked yet"
    COUNTS = (
        "{total:,} in doubt: {people:,} need a person, {themselves:,} are being settled"
        " automatically"
    )
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
        " {asked_again:,} will be called again under the same reference, {left:,} remain in doubt"
    )
    NEXT_ABSENT = (
        "next: if the export is complete, add --absent resubmit to resend what never arrived"
    )
    EXPORT = "{name}: {rows:,} rows ({format}, {encoding}), {unreadable:,} lines could not be read"
    NOT_READ = "[yellow]{line}[/yellow]: {message}"
    NO_COLUMNS = "no column was recognised: name them with --column FIELD=COLUMN"
    NOTHING_MATCHES = "no row is about an item in doubt"
    NOT_IN_EXPORT = "not in the export"
    ROWS = "{known:,} rows are about messages with a known outcome, {unknown:,} match no message"
    VERDICTS = "{sent:,} sent, {resubmit:,} to send again, {failed:,} failed, {in_doubt:,} in doubt"
    WOULD_BECOME = "would become: {verdicts}. Nothing was changed"
    AMBIGUOUS = "{count:,} remain because several rows could be about them"
    NOT_COVERED = "{count:,} remain because they were called outside the export's time range"
    HELD = "{count:,} remain because their worker may still be running; --force includes them"
    NOTHING_MATCHED = (
        "[yellow]--absent was not applied[/yellow]: no row is about any message"
        " of this target, so the export is of something else or the reference is in another column"
    )
    UNREADABLE_ROWS = (
        "[yellow]--absent was not applied[/yellow]: some lines could not be"
        " read, and they may contain the missing messages"
    )
    NOT_A_PAIR = "give it as NAME=VALUE"
    CANNOT_BE_READ = "{path} cannot be read: {strerror}"


class History:
    STATUS = (
        "{history}\nwaiting: {waiting:,} events, the oldest for {lag:,} s\n"
        "written: {written:,}, failed attempts: {failed:,}, dead letters: {letters:,}"
    )
    LAST_ERROR = "last error: {error}"
    SET_UP = "[green]ready[/green]: the history has its tables"
    PROGRESS = "{runs:,} runs looked at, {events:,} events written"
    BACKFILLED = (
        "[green]complete[/green]: {runs:,} runs looked at, {filled:,} of them lacked events,"
        " {events:,} events written"
    )
    NOT_A_RUN = "--run should be the ID of a run"
    COMPARED = (
        "{runs:,} runs, {events:,} events: {same:,} the same, {behind:,} behind, {incomplete:,}"
        " incomplete, {differs:,} different"
    )
    BACKFILL_HINT = "next: outrider history backfill"
    AGREES = "[green]The history agrees with the log.[/green]"


class KeySigning:
    CREATED = "[green]created[/green] key {id}; its public half, for those who verify:"
    NONE = "no key has signed anything yet"
    UNKNOWN = "there is no key {id}"


class Person:
    RECIPIENTS = "in audiences as {ids}"
    OTHERS = "other addresses: {addresses}"
    NOTHING = "nothing is known about {address}"
    INCOMPLETE = "there is more than can be shown for one person; the oldest entries are left out"
    NEXT_PAGE = "next: outrider person {address} --after {next}"
    NOT_FOUND = "nothing matches {words}"
    IN_DOUBT = "in doubt"
    EVERYTHING = "everything"
    SHOW_PERSON = "outrider person {id}"
    SHOW_CAMPAIGN = "outrider campaign status {id}"
    SHOW_RUN = "outrider run show {id}"
    SHOW_ITEM = "outrider run explain {id}"
    SHOW_EVENT = "outrider event show {id}"
    SHOW_INTENT = "outrider intent show {id}"


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


class ReceiveMail:
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


class TargetTry:
    SUBJECT = "Test message from Outrider"
    BODY = "This is a test message from Outrider ({intent_id})."
    BUSY = "{jobs} open jobs wait for '{target}', and would be sent along with a test message"
    BUSY_HINT = (
        "send it through the running workers instead: outrider intent submit ID --target {target}"
        ' --payload \'{{"to": "{to}", "body": "…"}}\''
    )
    NOT_SHOWN = "request: not shown; the reason below says how far it got"
    REQUEST = "[bold]request[/bold]"
    ANSWER = "[bold]answer: HTTP {status}[/bold]"
    NO_ANSWER = "[bold]answer: none[/bold]"
    OUTCOME = "[bold]outcome: {outcome}[/bold]"
    MESSAGE_ID = "provider's message id: {message_id}"
    REASON = "reason: {reason}"
    ERROR = "error: {error}"
    FIX = "what to fix: {fix}"
    LEDGER = "ledger: outrider intent show {intent_id}"
    EVIDENCE = "if a call gets no answer:"
    KEY = "  key: a repeat within {key} sends nothing twice"
    NO_KEY = "  key: none"
    LOOK_UP = "  look-up: {look_up}"
    NO_LOOK_UP = "  look-up: none"
    RECEIPTS = "  receipts: our reference comes back in {receipts}"
    NO_RECEIPTS = "  receipts: not set up for this target (docs/reference/provider-receipts.md)"
    WAITING = (
        "It waits: `outrider target show` says for what, and `outrider target reset` tries again at"
        " once. It is sent when that is over."
    )
    IN_DOUBT = "The call got no answer. `outrider doubts list` shows what it waits for."
    OTHERWISE = "The provider's answer says what it does not accept."
    UNAUTHORIZED = (
        "The provider refuses the credential: check its value, its permissions and its account,"
        " then run `outrider check`."
    )
    SENDER = (
        "The provider does not let this account send from this address: verify the sender or its"
        " domain there, or set the option `from`."
    )
    ACCOUNT = "The account may not send now: it is paused, pending or out of credit."
    SETUP = (
        "An option names something that the provider does not have: check the target's options and"
        " gatewayUrl."
    )
    TEMPLATE = "The provider does not know the template, or has not approved it."
    RECIPIENT = "The provider does not accept this recipient: try another --to."
    SUPPRESSED = (
        "The provider suppresses this recipient after a bounce, a complaint or an opt-out: remove"
        " it from its suppression list, or try another --to."
    )
    UNREGISTERED = "The app is no longer on this device: try another --to."
    THROTTLED = "The provider asks to wait: set rate_per_second to the account's limit."
    UNREACHABLE = (
        "Nothing can be reached there: check the host and port in gatewayUrl, and firewalls on the"
        " way. A private address needs allow_private_gateways = true."
    )
    CERTIFICATE = (
        "The server's certificate is not trusted here: check the host in gatewayUrl, or name its"
        " authority with SSL_CERT_FILE."
    )


class Workers:
    NONE = "no server or worker is running"
    NEXT_PAGE = "next: outrider workers --after {next}"
    ALIVE = "alive"
    SILENT = "silent"
    EVERYTHING = "everything"
    HOLDS = "{jobs} for {target}"


class Verify:
    NOTHING_GIVEN = "give a FILE to check a bundle, or --database to check the database"
    WRITTEN = "[green]written[/green] {file}, {size:,} bytes; check it: outrider verify {file}"
    UNREADABLE = "{file} cannot be read: {error}"
    NOT_A_KEY = "--public-key should be 64 hex digits, or a file with them"
    BUNDLE = "run {run_id}: {rows:,} ledger rows, {receipts:,} receipts, {events:,} events"
    BUNDLE_HOLDS = "[green]Everything holds.[/green] Signed with {key_ids}"
    BUNDLE_DOES_NOT_HOLD = "[red]The bundle does not hold.[/red]"
    WHOSE_KEY = "Anyone can sign with their own key: compare it with the sender's (--public-key)"
    CHECKED = (
        "{runs:,} runs with {events:,} events and {rows:,} sealed rows, {entries:,} entries of the"
        " audit log"
    )
    UNSEALED = "{runs:,} runs are not sealed: they go on, or ended before there were seals"
    RETIRED = "{runs:,} runs are retired: their bundles were checked instead"
    ERASED = "{rows:,} sealed rows are of people who were erased, and otherwise as they were"
    RECEIPTS_SINCE = "{receipts:,} receipts came after the last seal of their run"
    OTHER_KEYS = "signed by keys of other machines, which the database names: {keys}"
    BEFORE_CHAIN = "{events:,} events are from before there were hash chains: nothing protects them"
    WAITING = "{entries:,} entries of the audit log are not chained yet"
    HOLDS = "[green]Nothing was edited, removed or inserted.[/green]"
    TAMPERED = "[red]{rows:,} findings: something was changed without Outrider.[/red]"


class Retire:
    DONE = (
        "[green]retired[/green] what ended before {before}: {runs:,} runs with {rows:,} messages,"
        " {messages:,} single messages, {events:,} events, {receipts:,} receipts without a message"
    )
    WOULD = (
        "would retire what ended before {before}: {runs:,} runs with {rows:,} messages,"
        " {messages:,} single messages. Nothing was changed"
    )
    KEPT = "[yellow]kept[/yellow] {run_id}: {why}"
    MORE_KEPT = "… and {runs:,} more"


class Recovery:
    NONE = "[green]not in quarantine[/green]: this is the database that the workers know"
    QUARANTINE = (
        "[yellow]in quarantine[/yellow] since {since}: {reason}.\n"
        "Nothing is sent. If it is the one to work with, run `outrider recovery release`; with"
        " `--nothing-lost` if it has everything that was done"
    )
    RELEASED = (
        "[green]released[/green]: whatever may have been sent is settled by evidence. See"
        " `outrider doubts list` for what needs a person"
    )
    TRUSTED = "[green]released[/green]: work continues where it stopped"


class Erase:
    KNOWN_AS = "known as: {addresses}"
    NOTHING = "nothing is known of this person"
    ARTIFACT = "artifact of {run_id}"
    RULE = "workflow rule {rule_id} names the person in its recipients: change it by hand"
    WOULD = "Nothing was changed"
    DONE = "[green]erased[/green]: opt-outs are kept as salted hashes"
    WAITS = (
        "not complete yet: {messages:,} messages are being sent, in doubt, or still name the person"
        " to others, and {jobs:,} jobs have read their addresses. Settle doubts with"
        " `outrider doubts`"
    )
    NOT_REWRITTEN = (
        "the database file may still have remains of removed rows: run the command again when it is"
        " less busy"
    )


class BundleProblems:
    UNREADABLE = "not a line or a document of this format:"
    CUT_OFF = "the end of the file is missing or changed"
    DIGEST = "the content is not what was signed"
    SIGNATURE = "the signature is not valid"
    KEY = "it was signed with another key:"
    SEAL = "the seal of the run is missing, or its signature is not valid"
    EVENT = "the run's event does not fit into the hash chain:"
    EVENT_HEAD = "the hash chain is not the one that was sealed, at event"
    LEDGER_ROW = "the ledger row was changed:"
    LEDGER_ROOT = "the ledger rows are not those that were sealed"
    RECEIPT = "the receipt was changed:"
    RECEIPTS_ROOT = "the receipts are not those that were sealed"
    ACCOUNTING = "the certificate counts other rows than there are"
    CONTRACT = "a contract that a row was sent under is missing"
    PERSON = "recipient or message are not those of the row"
    PATH = "the row is not part of the sealed ledger:"
