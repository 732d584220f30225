"""What the section on the recursive query has beyond those of all studies."""

from benchlab.analysis import charts, spec_tree, spec_tree_charts
from benchlab.analysis.manuscript.parts import Content, Source, digits


def section(source: Source) -> Content:
    """Gather what ``paper/sections/spec_tree.md`` places of its own."""
    repo, own, spec, profile = source.repo, source.own, source.spec, source.profile
    measured = source.measured
    runs = spec_tree.runs(own, profile)
    used, latencies = spec_tree.cpu(runs), spec_tree.latencies(runs)
    plans = spec_tree.plans(own, spec, profile)
    due = spec_tree.open_loop(own, profile)
    made = Content({"resolution": spec_tree.RESOLUTION})
    for workload, name in (("spec_tree", "whole"), ("spec_tree_partitioned", "partitioned")):
        if workload in measured["workload"]:
            made.figures[f"throughput-{name}"] = charts.throughput(
                measured, workload, clients="connections"
            )
            made.figures[f"latency-{name}"] = spec_tree_charts.latency(latencies, workload)
    made.figures["cpu"] = spec_tree_charts.cpu(used.filter(variant="default"))
    if not due.is_empty():
        made.figures["open-loop"] = spec_tree_charts.open_loop(due)
    made.tables = {
        "scale": digits(
            spec_tree.scale(repo, runs, spec, profile, source.instance), "article", "ours"
        ),
        "article": spec_tree.article_table(repo, runs),
        "latencies": spec_tree.latency_table(latencies),
        "third-trial": spec_tree.third_trial(runs),
        "waits": spec_tree.waits(own, profile),
        "plans": plans,
        "partitions-or-plan": spec_tree.partitions_or_plan(runs, plans),
        "pool-or-plan": digits(
            spec_tree.pool_or_plan(repo, runs),
            "pool of 128 MB",
            "large pool",
            "large : small",
        ),
        "footprint": spec_tree.footprint(repo, runs),
    }
    return made
