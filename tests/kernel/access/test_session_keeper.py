"""The session keeper: a session stands for its key, for as long as that opens anything."""

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.keys import KeyScope


async def test_a_session_is_found_by_its_token_until_its_key_is_revoked(
    noop_outrider: Outrider,
) -> None:
    keys, sessions = noop_outrider.key_keeper, noop_outrider.session_keeper
    made, text = await keys.create(DEFAULT_SCOPE, "console", {KeyScope.READ}, "test")
    principal = await keys.authenticate(text)
    assert principal is not None
    session = await sessions.begin(principal)
    found = await sessions.find(session.token)
    assert found == session
    assert await sessions.find(session.token[:-1]) is None
    await keys.revoke(DEFAULT_SCOPE, made.id, "test")
    assert await sessions.find(session.token) is None
