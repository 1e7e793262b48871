-- Contracts as they were when messages were written under them.

-- name: contract_by_id
SELECT document FROM contract_snapshots WHERE id = :contract_id;
