-- What a launch counts of its audience.

-- name: count_batches
-- How many members of each batch of positions get all messages, or one named message.
SELECT position / :batch_size::int AS batch, message_id, count(*) FROM audience_members
 WHERE campaign_id = :campaign_id GROUP BY 1, 2 ORDER BY 1;

-- name: audience_size
-- Under the lock that additions to the audience take as well.
SELECT audience_size FROM campaigns WHERE id = :campaign_id;

-- name: count_chosen_batches
-- How many members of each batch get a message, for each part: a share of the audience, and of that
-- the range of a variant.
WITH item AS window(part int, first_draw bigint, last_draw bigint, first_choice bigint,
                    last_choice bigint),
drawn AS MATERIALIZED (
  SELECT position / :batch_size::int AS batch, outrider_draw(:salt::text, recipient_id) AS draw,
         outrider_draw(:choice_salt::text, recipient_id) AS choice
    FROM audience_members
   WHERE campaign_id = :campaign_id AND (message_id IS NULL OR message_id = :message_id)
)
SELECT drawn.batch, item.part, count(*)
  FROM drawn JOIN item ON drawn.draw BETWEEN item.first_draw AND item.last_draw
   AND (item.first_choice IS NULL
        OR drawn.choice BETWEEN item.first_choice AND item.last_choice)
 GROUP BY drawn.batch, item.part ORDER BY drawn.batch;
