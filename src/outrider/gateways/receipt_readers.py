"""Finds a target's reader for the server, given the registry's entry for the target."""

from collections.abc import Callable

from outrider.domain.workspaces import DEFAULT_WORKSPACE_NAME, WorkspaceName
from outrider.gateways.directory import Gateways
from outrider.ports.receipts import ReceiptReader


class TargetReaders:
    """The ReceiptReaders of a process."""

    def __init__(self, gateways: Gateways, gateway_type_of: Callable[[str], str | None]) -> None:
        """`gateway_type_of` a submission target, None if the registry has no such target."""
        self._gateways = gateways
        self._gateway_type_of = gateway_type_of

    def reader(self, workspace: str, submission_target: str) -> ReceiptReader | None:
        """`workspace` is TENANT/PROJECT/ENVIRONMENT; without one, it is the default."""
        gateway_type = self._gateway_type_of(submission_target)
        if gateway_type is None:
            return None
        try:
            name = WorkspaceName.parse(workspace) if workspace else DEFAULT_WORKSPACE_NAME
        except ValueError:
            return None
        return self._gateways.receipt_reader(submission_target, gateway_type, name)
