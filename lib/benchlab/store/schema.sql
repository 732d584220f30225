-- The store: tidy tables, with units in the column names and run_id in every table that a run fills.
-- Version 1: first.
-- Version 2: engine_wait; attribution by interval, with saturation, share and confidence; runs with an
-- intervention (run.intervention, intervention_block, elasticity); published, claim, verdict.
-- Version 3: datasets that are not sysbench's (run.dataset), open loops (run.share_of_peak, rate_per_s); query_plan.
-- Version 4: Parquet files and a catalogue in place of one DuckDB file; planned_trial; transactions of several types
-- (operation; interval.operation, latency_bucket.operation); nodes (table node; column node of host, os_sample and
-- attribution, null in exports of older schemas); outcome. raw_file in place of raw_output: files stay in the run's
-- folder. os_sample no longer has rows of iostat, mpstat and pidstat; their captures are kept.
-- Version 5: names. engine_setting.requested in place of asked, claim.condition in place of told: exports of older
-- schemas have the old names. prewarm in place of read_in as a start and as a phase: such exports keep read_in.
-- Version 6: gate; runs that go on until they are steady (run.longest_s).
-- Version 7: single writes into a load that reads (single_write, table_state); the order of outcomes.
-- Version 8: system calls that write the engine's log (log_latency).
-- Version 9: rules of a workload's standard (rule).
-- Version 10: histograms of the clients' own times, such as think times (time_bucket); checkpoints (checkpoint).
-- Version 11: options of the load (run.options).

CREATE TABLE run (
    run_id VARCHAR PRIMARY KEY,
    status VARCHAR NOT NULL CHECK (status IN ('ok', 'failed', 'refused')),
    error VARCHAR,
    study VARCHAR NOT NULL,
    profile VARCHAR NOT NULL,
    target VARCHAR NOT NULL,
    single_host BOOLEAN NOT NULL,
    engine VARCHAR NOT NULL,
    engine_version VARCHAR NOT NULL,
    variant VARCHAR NOT NULL,
    workload VARCHAR NOT NULL,
    options VARCHAR,                    -- of the driver, set by the workload or its defaults, as JSON; null in exports
                                        -- of older schemas
    dataset VARCHAR,                    -- what was loaded, as JSON
    tables INTEGER,                     -- of the dataset of sysbench's own scripts; null: another dataset
    rows_per_table BIGINT,
    concurrency INTEGER NOT NULL,
    trial INTEGER NOT NULL,
    trial_key VARCHAR NOT NULL,
    point_key VARCHAR NOT NULL,
    seed BIGINT NOT NULL,
    start_state VARCHAR NOT NULL,
    dataset_reset VARCHAR NOT NULL,
    warmup_s INTEGER NOT NULL,
    measure_s INTEGER NOT NULL,         -- least length of the measured part; its length if longest_s is null
    longest_s INTEGER,                  -- greatest length, for a run that goes on until it is steady
    envelope VARCHAR NOT NULL,
    envelope_enforced BOOLEAN NOT NULL,
    limit_cores DOUBLE NOT NULL,
    limit_memory_bytes BIGINT NOT NULL,
    limit_read_bytes_per_s BIGINT,
    limit_write_bytes_per_s BIGINT,
    limit_read_iops BIGINT,
    limit_write_iops BIGINT,
    started TIMESTAMPTZ NOT NULL,
    ended TIMESTAMPTZ NOT NULL,
    measure_begin DOUBLE,               -- Unix seconds
    measure_end DOUBLE,
    transactions BIGINT,
    queries BIGINT,
    ignored_errors BIGINT,
    reconnects BIGINT,
    measured_s DOUBLE,
    tps DOUBLE,
    latency_mean_us DOUBLE,
    latency_max_us DOUBLE,
    benchlab_version VARCHAR NOT NULL,
    benchlab_commit VARCHAR,
    benchlab_modified BOOLEAN,
    intervention VARCHAR,               -- limits lowered, single writes or checks, as JSON; null: an ordinary run
    share_of_peak DOUBLE,               -- rate as a share of the closed loop's throughput; null: a closed loop
    rate_per_s DOUBLE                   -- rate at which transactions were due
);

-- Trials that plans ask for; see benchlab.plan.plan.
CREATE TABLE planned_trial (
    plan VARCHAR NOT NULL,              -- name of the plan's file
    study VARCHAR NOT NULL,
    profile VARCHAR NOT NULL,
    target VARCHAR NOT NULL,
    planned TIMESTAMPTZ NOT NULL,       -- when the plan was written
    position INTEGER NOT NULL,          -- in the order in which the trials are to be run, from 0
    trial_key VARCHAR NOT NULL,
    engine VARCHAR NOT NULL,
    variant VARCHAR NOT NULL,
    workload VARCHAR NOT NULL,
    envelope VARCHAR NOT NULL,
    concurrency INTEGER NOT NULL,
    trial INTEGER NOT NULL,
    share_of_peak DOUBLE,
    intervened BOOLEAN NOT NULL         -- whether it has an intervention: see run.intervention
);

CREATE TABLE phase (
    run_id VARCHAR NOT NULL,
    phase VARCHAR NOT NULL,             -- cold, prewarm, warmup, measure
    begin_s DOUBLE NOT NULL,            -- Unix seconds
    end_s DOUBLE NOT NULL
);

CREATE TABLE node (
    run_id VARCHAR NOT NULL,
    node VARCHAR NOT NULL,
    role VARCHAR NOT NULL               -- db.primary, db.standby, app, load, ...; one row per role
);

CREATE TABLE host (
    run_id VARCHAR NOT NULL,
    node VARCHAR,
    fact VARCHAR NOT NULL,
    value VARCHAR
);

CREATE TABLE engine_setting (
    run_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,
    requested VARCHAR,
    effective VARCHAR,
    unit VARCHAR,
    source VARCHAR
);

CREATE TABLE "interval" (
    run_id VARCHAR NOT NULL,
    phase VARCHAR NOT NULL,             -- warmup, measure
    operation VARCHAR,                  -- type of transaction; null: all types together
    second INTEGER NOT NULL,            -- end of the second, counted from the start of the phase
    threads INTEGER,
    tps DOUBLE,
    qps DOUBLE,
    read_qps DOUBLE,
    write_qps DOUBLE,
    other_qps DOUBLE,
    latency_us DOUBLE,                  -- latency at the percentile
    percentile DOUBLE,
    errors_per_s DOUBLE,
    reconnects_per_s DOUBLE
);

CREATE TABLE latency_bucket (
    run_id VARCHAR NOT NULL,
    operation VARCHAR,                  -- type of transaction
    latency_us DOUBLE NOT NULL,         -- value by which the driver names the bucket
    count BIGINT NOT NULL
);

CREATE TABLE time_bucket (
    run_id VARCHAR NOT NULL,
    operation VARCHAR NOT NULL,         -- type of transaction
    what VARCHAR NOT NULL,              -- keying, think; menu: response time of the menu before it; late: from due to
                                        -- sent; deferred: from queued to done, of transactions that are done later
    time_us DOUBLE NOT NULL,            -- rounded to three significant digits
    count BIGINT NOT NULL
);

CREATE TABLE operation (
    run_id VARCHAR NOT NULL,
    operation VARCHAR NOT NULL,         -- type of transaction; counts are those of the measured part
    transactions BIGINT NOT NULL,       -- transactions that ended well
    errors BIGINT NOT NULL,             -- transactions that ended in an error; sysbench then repeats them
    retries BIGINT,                     -- null: the driver does not count them
    latency_mean_us DOUBLE,
    latency_max_us DOUBLE
);

CREATE TABLE outcome (
    run_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,            -- in the order of the checks, from 1
    "check" VARCHAR NOT NULL,           -- what was checked: a consistency condition, a limit of the server, ...
    passed BOOLEAN,                     -- null: there is no right answer, or no answer came and `answer` says why
    answer VARCHAR NOT NULL             -- result in a few characters, or the server's message
);

CREATE TABLE rule (
    run_id VARCHAR NOT NULL,
    "check" VARCHAR NOT NULL,           -- rule of the standard that defines the workload
    clause VARCHAR NOT NULL,            -- clause of that standard, or another source of the rule
    value DOUBLE,                       -- measured value; null: nothing to measure it by
    least DOUBLE,                       -- allowed range, from least to most; null: no limit on that side
    most DOUBLE,
    unit VARCHAR NOT NULL,
    n BIGINT,                           -- number of cases behind the value; null: nothing is counted
    answer VARCHAR NOT NULL,            -- kept, broken, undecided; `no rule`: a number that follows from a rule
    why VARCHAR NOT NULL
);

CREATE TABLE os_sample (
    run_id VARCHAR NOT NULL,
    node VARCHAR,
    t DOUBLE NOT NULL,                  -- Unix seconds
    observer VARCHAR NOT NULL,
    subject VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,            -- contains the unit
    value DOUBLE
);

CREATE TABLE perf_stack (
    run_id VARCHAR NOT NULL,
    comm VARCHAR NOT NULL,
    stack VARCHAR NOT NULL,             -- outermost frame first, separated by ';'
    samples BIGINT NOT NULL
);

CREATE TABLE log_latency (
    run_id VARCHAR NOT NULL,
    call VARCHAR NOT NULL,              -- write, sync; flush: from the first write to the end of the sync
    from_us BIGINT NOT NULL,
    to_us BIGINT,                       -- null: without an upper bound
    calls BIGINT NOT NULL               -- calls in the whole seconds of the measured part
);

CREATE TABLE engine_counter (
    run_id VARCHAR NOT NULL,
    name VARCHAR NOT NULL,              -- counted_at_s: Unix seconds at which the others were read
    at_begin DOUBLE,
    at_end DOUBLE
);

CREATE TABLE engine_wait (
    run_id VARCHAR NOT NULL,
    t DOUBLE NOT NULL,                  -- Unix seconds of the sample
    wait_class VARCHAR NOT NULL,        -- value of benchlab.engines.waits.Wait
    wait VARCHAR NOT NULL,              -- as the engine names it
    sessions INTEGER NOT NULL           -- number of the load's sessions in this wait
);

CREATE TABLE checkpoint (
    run_id VARCHAR NOT NULL,
    begin_s DOUBLE NOT NULL,            -- Unix seconds, as the server logged it
    end_s DOUBLE                        -- null: it had not ended
);

CREATE TABLE query_plan (
    run_id VARCHAR NOT NULL,
    plan VARCHAR NOT NULL               -- plan of the workload's query, as the server's JSON
);

CREATE TABLE attribution (
    run_id VARCHAR NOT NULL,
    resource VARCHAR NOT NULL,
    node VARCHAR,                       -- node of the resource
    utilisation DOUBLE,                 -- mean over the measured part, share of the limit
    pressure DOUBLE,                    -- the same for all its users, as a share of what they may use together
    at_limit_share DOUBLE,              -- share of the time in which all of the resource was used
    saturation DOUBLE,                  -- share of the time or of the sessions that waited for the resource
    share DOUBLE,                       -- share of the time in which the resource bound
    binds BOOLEAN NOT NULL,             -- true for the resource that bound longest
    confidence DOUBLE,                  -- how far the captures of the run suffice, 0 to 1
    evidence VARCHAR NOT NULL
);

CREATE TABLE gate (
    run_id VARCHAR NOT NULL,
    "check" VARCHAR NOT NULL,           -- see benchlab.gate.checks; a check that does not apply has no row
    passed BOOLEAN NOT NULL,
    value DOUBLE,                       -- number behind the answer. steady: relative difference of the second half's
                                        -- mean from the first's; offered: share of the due transactions that ended;
                                        -- client, alone: share of the CPU; cached: share of the reads
    found VARCHAR NOT NULL              -- what was found, in one line
);

CREATE TABLE intervention_block (
    run_id VARCHAR NOT NULL,
    number INTEGER NOT NULL,            -- in the order of time, from 0
    resource VARCHAR,                   -- resource whose limit was lowered; null: a baseline block
    factor DOUBLE NOT NULL,
    in_force DOUBLE,                    -- limit before the run: cores, bytes or operations per second
    lowered_to DOUBLE,
    begin_s DOUBLE NOT NULL,            -- Unix seconds
    end_s DOUBLE NOT NULL,
    seconds INTEGER NOT NULL,           -- seconds that count: whole ones, without the transient
    tps DOUBLE
);

CREATE TABLE single_write (
    run_id VARCHAR NOT NULL,
    table_name VARCHAR NOT NULL,
    due_s DOUBLE NOT NULL,              -- Unix seconds, as in the next columns
    begin_s DOUBLE NOT NULL,            -- start of the transaction
    commit_s DOUBLE NOT NULL,           -- COMMIT was sent
    end_s DOUBLE NOT NULL               -- COMMIT was answered
);

CREATE TABLE table_state (
    run_id VARCHAR NOT NULL,
    t DOUBLE NOT NULL,                  -- Unix seconds
    table_name VARCHAR NOT NULL,
    state VARCHAR NOT NULL              -- as the engine names it
);

CREATE TABLE elasticity (
    run_id VARCHAR NOT NULL,
    resource VARCHAR NOT NULL,
    elasticity DOUBLE,                  -- d ln TPS / d ln limit
    low DOUBLE,                         -- bounds of its 95 % interval
    high DOUBLE,
    blocks INTEGER NOT NULL,            -- number of blocks that it rests on
    answer VARCHAR NOT NULL,
    reason VARCHAR                      -- why the answer is unclear or not testable
);

CREATE TABLE raw_file (
    run_id VARCHAR NOT NULL,
    file VARCHAR NOT NULL,              -- in the run's folder
    sha256 VARCHAR NOT NULL,
    bytes BIGINT NOT NULL
);

-- Claims of the articles and the conclusions on them. `benchlab paper` and `benchlab export` write these tables
-- again from the study files, the published tables and all runs.

CREATE TABLE published (
    study VARCHAR NOT NULL,
    "table" VARCHAR NOT NULL,
    "row" INTEGER NOT NULL,             -- row number in the file, from 1
    engine VARCHAR,
    variant VARCHAR,
    workload VARCHAR,
    concurrency INTEGER,
    factors VARCHAR NOT NULL,           -- all other factors, as a JSON object
    metric VARCHAR NOT NULL,
    unit VARCHAR NOT NULL,
    value DOUBLE NOT NULL
);

CREATE TABLE claim (
    study VARCHAR NOT NULL,
    claim VARCHAR NOT NULL,             -- id, unique within a study
    position INTEGER NOT NULL,          -- place in the study file
    article_where VARCHAR NOT NULL,     -- section or table of the article
    kind VARCHAR NOT NULL,
    "text" VARCHAR NOT NULL,
    test VARCHAR NOT NULL,
    condition VARCHAR NOT NULL          -- condition of the test, in a few characters
);

CREATE TABLE verdict (
    study VARCHAR NOT NULL,
    profile VARCHAR,                    -- null: the study was not run
    target VARCHAR,
    claim VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL CHECK (
        verdict IN ('reproduced', 'not reproduced', 'depends', 'inconclusive', 'not testable here')
    ),
    found VARCHAR NOT NULL,             -- what the runs show, in a few characters
    value DOUBLE,                       -- number that decided, with its interval; null: no number decided
    low DOUBLE,
    high DOUBLE,
    n INTEGER,                          -- number of trials that it rests on
    reason VARCHAR NOT NULL,
    trials_needed INTEGER,              -- trials of each point that would decide; null: these suffice, or unknown
    confidence DOUBLE                   -- confidence of the interval; null: no chance in it, or nothing was measured
);
