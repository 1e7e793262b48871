"""References to artifacts, as the contract prints them."""

from datetime import UTC, datetime

import pytest

from outrider.domain.artifacts import FIELDS, ArtifactRef, artifact_ref
from outrider.domain.errors import InvalidInput

SHA256 = "a" * 64
EXPIRES = datetime(2026, 12, 1, 9, tzinfo=UTC)
WHOLE = {
    "uri": "s3://bucket/run/results.csv",
    "kind": "results.csv",
    "sha256": SHA256,
    "sizeBytes": 0,
    "expiresAt": "2026-12-01T09:00:00Z",
}


def test_a_reference_is_the_document_of_the_contract() -> None:
    made = ArtifactRef("s3://bucket/run/results.csv", "results.csv", SHA256, 0, EXPIRES)
    assert made.as_document() == WHOLE
    assert set(WHOLE) == FIELDS
    assert artifact_ref(WHOLE) == made


def test_what_is_not_known_is_left_out() -> None:
    made = ArtifactRef("file:run/report.html", "report")
    assert made.as_document() == {"uri": "file:run/report.html", "kind": "report"}
    assert artifact_ref(made.as_document()) == made


@pytest.mark.parametrize(
    "uri",
    ["file:run/a b.csv", "s3://bucket/a", "gs://bucket/a/b/é", "az://c/a", "azure://c/a",
     "memory://x/run/a"],
)  # fmt: skip
def test_reference_schemes_are_taken(uri: str) -> None:
    assert ArtifactRef(uri, "k").uri == uri


@pytest.mark.parametrize(
    "uri",
    [
        "", "results.csv", "data:text/plain;base64,aHVudGVyMg==", "data:,hunter2",
        "https://bucket.s3.test/a?X-Amz-Signature=hunter2", "http://host/a", "javascript:hunter2",
        "s3://bucket/a?X-Amz-Signature=hunter2", "s3://bucket/a?", "s3://bucket/a#hunter2",
        "s3://key:hunter2@bucket/a", "s3:///a", "s3://bucket", "s3://bucket/", "file:", "file:a?b",
        "s3://bucket/a\nb", "s3://[bucket/a", "s3://bucket/" + "a" * 2_048,
    ],
)  # fmt: skip
def test_an_invalid_reference_or_one_with_a_signature_or_content_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ArtifactRef(uri, "kind")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": ""}, {"kind": "a\nb"}, {"kind": "k" * 201}, {"kind": 5}, {"uri": None},
        {"sha256": "A" * 64}, {"sha256": "a" * 63}, {"sha256": 5}, {"sizeBytes": -1},
        {"sizeBytes": "5"}, {"sizeBytes": True}, {"sizeBytes": 1.5}, {"expiresAt": "soon"},
        {"expiresAt": "2026-12-01T09:00:00"}, {"expiresAt": 5}, {"content": "aGVsbG8="},
    ],
)  # fmt: skip
def test_a_document_that_is_not_one_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        artifact_ref({**WHOLE, **changed})


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        ArtifactRef("file:a", "k", expires_at=datetime(2026, 1, 1))
