"""Providers: connections, steps of a call, answers, checks, the simulator."""

HTTP_CONCURRENCY = 64
HTTP_WINDOW_ITEMS = 500
PROVIDER_CONCURRENCY = 16
LOOK_UP_PAGES = 50
"""Pages of a provider's list that are read for one look-up; beyond them, nothing is known."""
LOOK_UP_PAGE_ITEMS = 20
"""As many as fit into one answer, each with the longest text."""
LOOK_UP_SECONDS = 10.0
LOOK_UP_WINDOW_SECONDS = 20.0
"""How long one window of questions may take: other targets' doubts wait meanwhile."""
LOOK_UP_TEXTS = 256
"""Whole texts that a gateway remembers between look-ups, where each is asked for by itself."""
LOOK_UP_CLOCK_SECONDS = 30.0
"""A provider whose clock differs by more has no times that can be compared with ours."""
LOOK_UP_FAILURES_MAX = 3
"""After this many unanswered questions in a row, no more are asked for now."""
LOOK_UP_DELAY_SECONDS = 60.0
"""Of a target's own look-up, unless it says otherwise: how far behind its records may be."""
LOOK_UP_RETENTION_SECONDS = 7 * 86_400.0
CREDENTIAL_REREAD_SECONDS = 60.0
TOKEN_RENEWAL_SECONDS = 300.0
"""Before its end, an access token is renewed."""
TOKEN_EXCHANGE_SECONDS = 10.0
HTTP_TIMEOUT_SECONDS = 10.0
HTTP_ANSWER_MAX_BYTES = 65_536
HTTP_HEADERS_MAX_BYTES = 32_768
MAIL_FROM_DEFAULT = "outrider@localhost"
SMTP_CONNECTIONS = 16
SMTP_POOL_SECONDS = 15.0
"""How long a message waits for a free connection of ours."""
SMTP_CONNECT_SECONDS = 15.0
SMTP_GREETING_SECONDS = 60.0
SMTP_HELLO_SECONDS = 60.0
SMTP_MAIL_SECONDS = 300.0
SMTP_RCPT_SECONDS = 300.0
SMTP_DATA_SECONDS = 120.0
SMTP_BLOCK_SECONDS = 180.0
SMTP_END_SECONDS = 600.0
"""RFC 5321, 4.5.3.2. A server that has the whole message may be about to say so: hanging up earlier
puts a delivered message in doubt. Before the first command shorter waits cost nothing."""
MAIL_COMPOSED_IN_LOOP_CHARACTERS = 32_768
"""Longer texts are composed in a thread, while other calls continue: HTML is read for its text."""
SMTP_REPLY_MAX_BYTES = 32_768
"""Of one reply, all its lines."""
SMTP_FAREWELL_SECONDS = 15.0
HELO_LOOKUP_SECONDS = 2.0
SMTP_SUSPECTS_MAX = 5
"""This many ambiguous refusals in a row are about us."""
SMTP_SUSPECTS_REMEMBERED = 10_000
SMTP_IDLE_SECONDS = 5.0
SMTP_MESSAGES_PER_CONNECTION = 500
HTTP_CONNECTIONS = 256
HTTP_CONNECT_SECONDS = 5.0
HTTP_IDLE_SECONDS = 15.0
HTTP2_STREAMS_MAX = 500
"""Calls on one connection, whatever the server allows."""
HTTP2_FRESH_SECONDS = 15.0
"""After this long without a byte, a connection is asked whether it is alive before it is used."""
HTTP2_PING_SECONDS = 2.0
HTTP2_READ_BYTES = 65_536
ERROR_DETAIL_MAX_CHARACTERS = 300
WIRE_TAP_MAX_CHARACTERS = 4_000
"""Of a body that is shown to a person."""
CHECK_SECONDS = 10.0
"""How long the check of one target may take, whatever its own timeout is."""
CHECK_OVERTIME_SECONDS = 1.0
CHECKS_AT_ONCE = 16
SANDBOX_BODY_MAX_BYTES = 1_048_576
SANDBOX_MAIL_MAX_BYTES = 16 * 1024 * 1024
SANDBOX_STOP_SECONDS = 1.0
SANDBOX_KEPT_MESSAGES = 200_000
SECRET_MAX_BYTES = 65_536
RECEIPT_BODY_MAX_BYTES = 1_048_576
RECEIPTS_PER_CALLBACK_MAX = 10_000
RECEIPT_FIELDS_MAX = 1_000
"""Fields of a provider's form."""
RECEIPT_ID_MAX_CHARACTERS = 200
RECEIPT_ADDRESS_MAX_CHARACTERS = 320
RECEIPT_REASON_MAX_CHARACTERS = 300
RECEIPT_TEXT_MAX_CHARACTERS = 1_600
"""Ten parts of a text message."""
RECEIPT_SECRET_REREAD_SECONDS = 1.0
"""A flood of forged callbacks re-reads the secret once in this time, not once each."""
SNS_CERTIFICATES_KEPT = 16
SNS_FETCH_SECONDS = 5.0
"""SNS itself gives up after 15 seconds."""
MAIL_RECEIVED_MAX_BYTES = 10 * 1024 * 1024
"""A bounce may return the whole message."""
MAIL_READ_IN_LOOP_BYTES = 65_536
"""Larger ones are read in a thread, while other clients are served."""
MAIL_SESSIONS_MAX = 64
MAIL_SESSION_IDLE_SECONDS = 300.0
"""RFC 5321, 4.5.3.2.7."""
MAIL_RECIPIENTS_MAX = 100
MAILDIR_LOOK_SECONDS = 1.0
MAILDIR_RETRY_SECONDS = 30.0
MAILDIR_WINDOW_MAILS = 1_000
POSTED_INBOX_SECONDS = 30.0
SANDBOX_RECEIPTS_WAITING_MAX = 200_000
"""Beyond this the simulator counts what it does not report, as a provider's own queue would."""
SANDBOX_RECEIPT_POSTS = 16
SANDBOX_RECEIPT_SECONDS = 10.0
SANDBOX_RECEIPT_RETRY_SECONDS = 0.2
SANDBOX_RECEIPT_RETRY_CAP_SECONDS = 30.0
