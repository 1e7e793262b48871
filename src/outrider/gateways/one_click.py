"""The two headers of RFC 8058: together they let a mailbox provider unsubscribe with one POST."""


def unsubscribe_headers(url: str) -> dict[str, str]:
    return {
        "List-Unsubscribe": f"<{url}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
    }
