"""Mails as real servers write them when they give a message back."""

TOKENLESS = "bounces@mail.example"


def report(
    *fields: str,
    to: str = TOKENLESS,
    kind: str = "delivery-status",
    returned: str = "",
    message_id: str = "<20261117.1@mx.example>",
) -> bytes:
    """`fields` are the groups of the machine-readable part."""
    groups = "\n\n".join(fields)
    text = f"""Return-Path: <>
Delivered-To: {to}
From: MAILER-DAEMON@mx.example (Mail Delivery System)
To: {to}
Subject: Undelivered Mail Returned to Sender
Date: Tue, 17 Nov 2026 11:59:00 +0000
Auto-Submitted: auto-replied
Message-ID: {message_id}
MIME-Version: 1.0
Content-Type: multipart/report; report-type={kind};
 boundary="A1B2.1794916740/mx.example"

This is a MIME-encapsulated message.

--A1B2.1794916740/mx.example
Content-Description: Notification
Content-Type: text/plain; charset=us-ascii

I'm sorry to have to inform you that your message could not be delivered.
It says "mailbox does not exist", and nobody should believe that.

--A1B2.1794916740/mx.example
Content-Description: Delivery report
Content-Type: message/{kind}

{groups}

--A1B2.1794916740/mx.example
Content-Description: Undelivered Message
Content-Type: message/rfc822

{returned}
From: News <news@shop.example>
Subject: Offer

Hello

--A1B2.1794916740/mx.example--
"""
    return text.replace("\n", "\r\n").encode()


PER_MESSAGE = "Reporting-MTA: dns; mx.example\nArrival-Date: Tue, 17 Nov 2026 11:58:00 +0000"


def recipient(action: str, status: str, diagnostic: str, address: str = "ada@example.test") -> str:
    return (
        f"Final-Recipient: rfc822; {address}\nOriginal-Recipient: rfc822;{address}\n"
        f"Action: {action}\nStatus: {status}\nRemote-MTA: dns; mx.example\n"
        f"Diagnostic-Code: {diagnostic}"
    )
