-- A job by its id. Ids come in blocks of 16, and a block belongs to one transaction: an index entry for the first id of each block
-- says where all of them are (log_rows). A single job has the first id of its block. The BRIN index is left for blocks that
-- were cut or spread: where several writers append at once each of its ranges has ids of all of them, and it does not cover
-- what was appended just now; a look-up took 5 to 120 ms in a log of 10^6 jobs, and takes 0.1 ms now.
-- Bulk appends pay for one entry in 16 jobs.
CREATE INDEX job_block ON {schema}.job (id) WHERE (id & 15) = 1 AND NOT moved;
