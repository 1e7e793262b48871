"""What deliveries and the settling of doubts need, beyond what each worker has for itself."""

from functools import cached_property

from outrider.bootstrap.access import AccessRoles
from outrider.bootstrap.contracts import ContractRoles
from outrider.documents.phone_zones import phone_zones
from outrider.domain.workflows import RoutePlace
from outrider.engines.process_identity import presence
from outrider.kernel.delivery.member_screens import MemberScreens
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.delivery.screener import Screener
from outrider.kernel.delivery.screens import supported_templates
from outrider.kernel.delivery.unknown_zones import UnknownZones
from outrider.kernel.delivery.warm_up_keeper import WarmUpKeeper
from outrider.kernel.receipts.doubt_resolver import DoubtResolver
from outrider.kernel.receipts.export_reconciler import ExportReconciler
from outrider.kernel.workflows.event_planner import Senders
from outrider.ports.legacy import LegacySender
from outrider.ports.mail_providers import MailProviders


class DeliveryRoles(ContractRoles, AccessRoles):
    @cached_property
    def policy_keeper(self) -> PolicyKeeper:
        return PolicyKeeper(self.foundation)

    @cached_property
    def legacy_senders(self) -> Senders:
        from outrider.legacy.registry import load_senders

        by_trigger: dict[str, dict[RoutePlace, LegacySender]] = {}
        for (trigger, place), sender in load_senders().items():
            by_trigger.setdefault(trigger, {})[place] = sender
        return by_trigger

    @cached_property
    def screener(self) -> Screener:
        senders = self.legacy_senders.values()
        templates = supported_templates(each for placed in senders for each in placed.values())
        return Screener(
            self.foundation, self.policy_keeper, phone_zones, self.unknown_zones, templates
        )

    @cached_property
    def unknown_zones(self) -> UnknownZones:
        return UnknownZones()

    @cached_property
    def member_screens(self) -> MemberScreens:
        shapes_mail = any(each.domains is not None for each in self.policies.values())
        return MemberScreens(
            self.foundation, self.policy_keeper, phone_zones, self.unknown_zones, self.warm_ups,
            shapes_mail=shapes_mail,
        )  # fmt: skip

    @cached_property
    def mail_providers(self) -> MailProviders:
        # Only where a target tells recipient domains apart.
        from outrider.phases.mail_providers import MxProviders

        return MxProviders(self.settings.nameservers)

    @cached_property
    def warm_ups(self) -> WarmUpKeeper:
        return WarmUpKeeper(self.policies, lambda: self.mail_providers)

    @cached_property
    def doubt_resolver(self) -> DoubtResolver:
        return DoubtResolver(self.foundation, self.gateways, presence)

    @cached_property
    def export_reconciler(self) -> ExportReconciler:
        return ExportReconciler(self.foundation, self.doubt_resolver)
