"""Further trials: a second look at the points of claims that too few trials leave open.

If an effect is close to the bound of its claim, it is chance whether few trials decide the claim. Two
reruns would then often come to different verdicts. A profile with ``most_trials`` therefore measures
the points of such claims again, up to that number of trials, and then judges once more, for the last
time. Claims decided at the first look are judged again with all trials, too. Two looks are two chances
to be wrong: :mod:`benchlab.simulation.coverage` simulates how many verdicts are wrong after both.
"""

from collections.abc import Collection, Iterable, Iterator

from benchlab.claims.foreseen import scale_of
from benchlab.claims.judge import Judgement, judge
from benchlab.plan import Batch, Plan, Planner, Trial
from benchlab.repo import Repo
from benchlab.run import planning
from benchlab.run.planning import Selection
from benchlab.store import ingest, open_store, results
from benchlab.study import DEFAULT_ENVELOPE, Study
from benchlab.study.claims import Change, Claim, OfCurves, Peak, clients_here

#: Engine, variant, workload, envelope, and number of clients.
Point = tuple[str, str, str, str, int]


def planned(repo: Repo, selection: Selection, spec: Study) -> Plan:
    """Return the plan of a study's profile with the further trials that open claims need.

    The first look uses only the trials that every point has, even if further ones were run before. So
    the same runs lead to the same plan.

    Args:
        repo: the checkout; its last plan of the profile must be the one without further trials.
        selection: names profile and target.
        spec: the study.
    """
    planner = planning.planner(repo, selection, spec)
    plan = planner.plan(selection.target)
    ingest.ingest_new(repo)
    with open_store(repo.store) as store:
        if (selection.profile, selection.target) not in results.ran(store, spec.study):
            return plan
        names = (spec.study, selection.profile, selection.target)
        judged = judge(repo, spec.study, results.open_rerun(repo, store, *names))
    return plan.model_copy(update={"batches": (*plan.batches, *batches(planner, judged, plan))})


def batches(planner: Planner, judged: Iterable[Judgement], plan: Plan) -> list[Batch]:
    """Return the trials that open claims need beyond those of a plan, shuffled as in the plan.

    Args:
        planner: that made the plan.
        judged: the study's claims, by the runs of the plan.
        plan: with the trials that every point has.
    """
    study, profile = planner.study, planner.study.profile(planner.profile_name)
    if profile.most_trials is None:
        return []
    every = {_point(trial) for trial in plan.trials}
    cores = plan.trials[0].point.envelope.cores / planner.instance.cores
    chosen = points(study, judged, every, cores, profile.most_trials)
    numbers = range(profile.trials + 1, profile.most_trials + 1)
    return [
        part
        for batch in planner.closed_loops(numbers=numbers)
        if (part := batch.only(lambda trial: _point(trial) in chosen))
    ]


def points(
    study: Study,
    judged: Iterable[Judgement],
    run: Collection[Point],
    share_of_cores: float,
    most: int,
) -> set[Point]:
    """Return the points of open claims that more trials would probably decide.

    Args:
        study: with the claims.
        judged: the claims.
        run: the points that were run.
        share_of_cores: cores here as a share of the instance type's cores.
        most: highest number of trials of a point.
    """
    return {
        point
        for one in judged
        if _is_worth_it(one, most)
        for point in _of_claim(one.claim, scale_of(study, one.claim, share_of_cores), run)
    }


def _point(trial: Trial) -> Point:
    return (*trial.point.curve, trial.point.concurrency)


def _is_worth_it(one: Judgement, most: int) -> bool:
    """Whether ``most`` trials of each point would probably decide an open claim."""
    return (
        one.verdict == "inconclusive"
        and one.trials_needed is not None
        and one.trials_needed <= most
    )


def _of_claim(claim: Claim, scale: float, run: Collection[Point]) -> Iterator[Point]:
    """Yield those of the points that were run that a claim's test uses in the main envelope."""
    for test in claim.decided_by.parts:
        asked = _clients(test)
        here = None if asked is None else {clients_here(one, scale) for one in asked}
        for series in test.sides:
            curve = (series.engine, series.variant, series.workload, DEFAULT_ENVELOPE)
            for *of_curve, clients in run:
                if tuple(of_curve) == curve and (here is None or clients in here):
                    yield (*curve, clients)


def _clients(test: OfCurves) -> list[int] | None:
    """Return the article's numbers of clients that a test names; ``None``: it uses whole curves."""
    match test:
        case Change():
            return [test.start, *(test.end if isinstance(test.end, list) else [test.end])]
        case Peak():
            return None
    named = test.at
    if isinstance(named, str):
        return None
    return [named] if isinstance(named, int) else named
