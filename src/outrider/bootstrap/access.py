"""Who may do what, answers under idempotency keys, and who opted out."""

import os
from functools import cached_property

from outrider.bootstrap.base import Wiring
from outrider.kernel.access.answer_finder import AnswerFinder
from outrider.kernel.access.callback_secrets import CallbackSecrets
from outrider.kernel.access.idempotency_keeper import DatabaseIdempotency
from outrider.kernel.access.key_authorisation import KeyAuthorisation
from outrider.kernel.access.key_keeper import KeyKeeper
from outrider.kernel.access.session_keeper import SessionKeeper
from outrider.kernel.access.suppression_keeper import SuppressionKeeper
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.limits.access import IDEMPOTENCY_RUNNING_SECONDS, IDEMPOTENCY_TTL_SECONDS
from outrider.limits.stores import REDIS_REST_SECONDS
from outrider.plugins import load_authorisation
from outrider.ports.authorisation import Authorisation
from outrider.ports.idempotency import IdempotencyStore
from outrider.secrets.session import SessionSecret
from outrider.secrets.store import load_secrets
from outrider.stores.redis_answers import RedisAnswers


class AccessRoles(Wiring):
    @cached_property
    def key_keeper(self) -> KeyKeeper:
        return KeyKeeper(self.foundation, os.urandom, self.settings.root_key)

    @cached_property
    def session_keeper(self) -> SessionKeeper:
        settings = self.settings
        secret = SessionSecret(settings.session_secret, load_secrets(), settings.spool)
        return SessionKeeper(
            self.foundation, self.key_keeper, os.urandom, settings.root_key, secret.read
        )

    @cached_property
    def authorisation(self) -> Authorisation:
        name = self.settings.authorisation
        return KeyAuthorisation() if name is None else load_authorisation(name)

    @cached_property
    def idempotency(self) -> IdempotencyStore:
        """In the same database as what the keys guard: they share its transactions."""
        return DatabaseIdempotency(
            self.foundation, IDEMPOTENCY_TTL_SECONDS, IDEMPOTENCY_RUNNING_SECONDS
        )

    @cached_property
    def answer_finder(self) -> AnswerFinder:
        """Redis if configured, which finds a repeated request's answer without the database."""
        url = self.settings.redis_url
        cache = None if url is None else RedisAnswers(url, IDEMPOTENCY_TTL_SECONDS)
        return AnswerFinder(cache, self.clock, REDIS_REST_SECONDS)

    @cached_property
    def suppression_keeper(self) -> SuppressionKeeper:
        return SuppressionKeeper(self.foundation)

    @cached_property
    def unsubscriber(self) -> Unsubscriber:
        return Unsubscriber(self.foundation, os.urandom, self.settings.public_url)

    @cached_property
    def callback_secrets(self) -> CallbackSecrets:
        return CallbackSecrets(self.foundation, os.urandom)
