"""How much is read for one person's history, or for a search."""

PERSON_CAMPAIGNS_MAX = 1_000
"""The newest audiences that a person is a member of."""
PERSON_CAMPAIGNS_LOOKED_THROUGH = 5_000
"""The newest campaigns in which an address or a recipient id is looked up, one by one."""
PERSON_PAGES_MAX = 2_000
"""Pages of audiences in which an address may be."""
PERSON_ITEMS_MAX = 5_000
"""Of each way to find items: intents, workflow messages, replies."""
PERSON_KEYS_WINDOW = 2_000
PERSON_ADDRESSES_MAX = 20
"""Addresses of one recipient id whose opt-outs and replies are shown."""
SEARCH_MAX_CHARACTERS = 512
SEARCH_NAMED_CAMPAIGNS_MAX = 10
SEARCH_CAMPAIGNS_LOOKED_THROUGH = 2_000
SEARCH_ITEMS_MAX = 10
"""Items that share one provider's message id."""
ERASURES_MAX = 1_000
"""Erasures under way that are looked at."""
ERASE_CAMPAIGNS_WINDOW = 200
ERASE_ITEMS_WINDOW = 200
ERASE_UPLOADS_WINDOW = 20
"""Chunks of uploads that are read at once; each is looked through record by record."""
ERASE_EVENTS_WINDOW = 200
ERASE_TEXTS_WINDOW = 500
ERASE_REST_SHARE = 1.0
"""How much longer than a window took the eraser rests after it: sending goes first."""
ERASE_PASSES = 10
ERASE_WAIT_SECONDS = 1.0
"""Between two passes, for calls and jobs that were under way when the erasure began."""
