"""What commands show: the API's own documents, whether made here or requested from a server."""

from typing import Any

from outrider.api.models.common import Answer

Document = dict[str, Any]


def document_of(answer: Answer) -> Document:
    return answer.model_dump(mode="json")
