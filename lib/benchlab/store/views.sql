-- Views over the store's tables, and what queries of several modules have in common.

-- The trials whose runs are a profile's results on a target: those that were planned last. Runs that are
-- older than plans have their last definition.
CREATE OR REPLACE VIEW planned AS
SELECT study, profile, target, trial_key FROM planned_trial
QUALIFY planned = max(planned) OVER (PARTITION BY study, profile, target)
UNION ALL (
    SELECT study, profile, target, trial_key FROM run
    WHERE (study, profile, target) NOT IN (SELECT (study, profile, target) FROM planned_trial)
    QUALIFY row_number() OVER (
        PARTITION BY study, profile, target, engine, variant, workload, envelope, concurrency, trial,
            share_of_peak, intervention
        ORDER BY started DESC
    ) = 1
);

-- Whether a sample is of the measured part of its run alone: it is of the second before its time.
CREATE OR REPLACE MACRO is_measured(t, measure_begin, measure_end) AS
    t > measure_begin + 1 AND t <= measure_end;
