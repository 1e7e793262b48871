"""The conformance suite that every store must pass: subclass it and provide a `store` fixture.

    class TestMyStore(StoreConformance):
        '''pytest collects the suite here; `store` is a migrated, empty store of mine.'''

Times are explicit, so nothing in it waits.
"""

from outrider.testing.store_suite.campaigns import CampaignConformance
from outrider.testing.store_suite.doubts import DoubtConformance
from outrider.testing.store_suite.inspection import InspectionConformance
from outrider.testing.store_suite.jobs import JobConformance
from outrider.testing.store_suite.ledger import LedgerConformance
from outrider.testing.store_suite.retries import RetryConformance
from outrider.testing.store_suite.settlement import SettlementConformance

__all__ = ["StoreConformance"]


class StoreConformance(
    CampaignConformance,
    JobConformance,
    LedgerConformance,
    RetryConformance,
    SettlementConformance,
    DoubtConformance,
    InspectionConformance,
):
    """Every transaction of the kernel, over one store."""
