"""Texts about the installation: database, registry, keys, servers, workers and the simulator."""


class App:
    VERSION = "outrider {version}"


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


class Init:
    WRITTEN = "[green]written[/green] {path}"
    EXISTS = "these files exist already: {names}; nothing was written"
    EXISTS_HINT = "name an empty folder: `outrider init FOLDER`"
    UNWRITABLE = "cannot write to {folder}: {reason}"
    NEXT = (
        "next: `outrider demo` shows what Outrider does, `outrider serve` starts the server; "
        "GETTING-STARTED.md explains the rest"
    )


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


class Sandbox:
    CANNOT_LISTEN = "cannot listen: {error}"
    OTHER_PORTS = "choose other ports with --port and --smtp-port"
    LISTENING = "[green]listening[/green] {http_url} (HTTP providers)"
    LISTENING_MAIL = "          {smtp_url} (mail)"
    LISTENING_HTTP2 = "          {http2_url} (apns; its target's caFile: {certificate})"
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


class WebServer:
    FAILED = "a background task of the server failed; see the log"


class Work:
    ONE_PROCESS = "--until-idle works with one process only"
    ALL_WORK = "--until-idle cannot be combined with --target or --mode"
