-- Which lane the job of a number was appended to, so that it is found by its id: see docs/design/sqlite-lanes.md.
--
-- Where a stretch of numbers of one lane begins is noted as the position of its first job, eight bytes each, the lowest first. `first`: the first of these numbers.
CREATE TABLE number_lane (
    first INTEGER PRIMARY KEY,
    stretches BLOB NOT NULL
) STRICT;

-- `lanes_from`: the lanes of jobs before this number are not noted. `lanes_upto`: the next number, as the last program left it that notes lanes: where it is another than
-- `next_sequence`, an older program took numbers since, which works on beside this. `lanes_checked`: up to where housekeeping has looked whether these jobs are still there.
-- `newest_stretches`: those after all of `number_lane`.
ALTER TABLE log_state ADD COLUMN lanes_from INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_state ADD COLUMN lanes_upto INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_state ADD COLUMN lanes_checked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE log_state ADD COLUMN newest_stretches BLOB NOT NULL DEFAULT x'';
UPDATE log_state SET lanes_from = next_sequence, lanes_upto = next_sequence;
-- The keyed lanes of a queue: each settlement asks for them.
CREATE INDEX keyed_lane_queue ON keyed_lane (queue) WHERE NOT ended;
INSERT INTO migration SELECT 21, compatible_with FROM migration ORDER BY version DESC LIMIT 1;
