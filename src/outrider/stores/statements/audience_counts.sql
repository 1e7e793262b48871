-- What a launch counts of its audience.

-- name: count_batches
-- How many members of each batch of positions get all messages, or one named message.
SELECT position / :batch_size::int AS batch, message_id, count(*) FROM audience_members
 WHERE campaign_id = :campaign_id GROUP BY 1, 2 ORDER BY 1;

-- name: audience_size
-- Under the lock that additions to the audience take as well.
SELECT audience_size FROM campaigns WHERE id = :campaign_id;
