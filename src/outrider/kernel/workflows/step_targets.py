"""Step targets: through which submission target a step's messages go."""

from collections.abc import Callable, Mapping

from outrider.domain.states import Channel
from outrider.domain.submission import Contract, GatewayType


class StepTargets:
    """The step's own target, or the one configured for its channel, or the only one there is."""

    def __init__(
        self,
        contracts: Callable[[], Mapping[str, Contract]],
        gateway_types: Mapping[str, GatewayType],
        by_channel: Mapping[Channel, str],
    ) -> None:
        self._contracts = contracts
        self._gateway_types = gateway_types
        self._by_channel = by_channel

    def find(self, channel: Channel, wanted: str | None) -> Contract | str:
        """The contract in force, or a description of why there is none."""
        in_force = self._contracts()
        name = wanted or self._by_channel.get(channel)
        if name is not None:
            contract = in_force.get(name)
            if contract is None:
                return f"the registry has no submission target '{name}'"
            if self._channel(contract) is not channel:
                return f"the submission target '{name}' is not for {channel.value}"
            return contract
        fitting = self.fitting(channel)
        if len(fitting) == 1:
            return fitting[0]
        how = "no" if not fitting else "more than one"
        return (
            f"the registry has {how} submission target for {channel.value}; name one in the step,"
            " or in workflow_targets of the settings"
        )

    def fitting(self, channel: Channel) -> list[Contract]:
        return [each for each in self._contracts().values() if self._channel(each) is channel]

    def _channel(self, contract: Contract) -> Channel:
        return self._gateway_types[contract.gateway_type].channel
