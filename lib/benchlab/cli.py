"""The command line."""

import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchlab import repo, study
from benchlab.errors import (
    BenchlabError,
    Incomplete,
    ProvisionError,
    StoreError,
    TargetError,
    UnknownName,
)
from benchlab.plan import Batch, label
from benchlab.repo import Repo
from benchlab.run import planning
from benchlab.run.planning import Selection
from benchlab.study import PROFILES, InterventionPoint, strict
from benchlab.study.intervention import LimitBlocks
from benchlab.study.resources import LOWERED

# Commands import slow modules (DuckDB, Polars, scipy, Ansible, the paper's stack) themselves, so that
# commands that do not need them answer at once.

if TYPE_CHECKING:
    import polars as pl

    from benchlab.claims.judge import Judgement
    from benchlab.store import Store
    from benchlab.store.results import Rerun
    from benchlab.study.claims import Claim

_typer = typer.Typer(
    help="Rerun published database benchmarks end to end.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
_lab = typer.Typer(
    help="Hosts made of namespaces of this machine, for deployments of several nodes.",
    no_args_is_help=True,
)
_typer.add_typer(_lab, name="lab")
console = Console()

_TargetName = Annotated[str, typer.Option("--target", help="An inventory of ansible/inventories.")]
_TargetOrStudys = Annotated[
    str | None,
    typer.Option("--target", help="An inventory of ansible/inventories; by default the study's."),
]
_ProfileThatRan = Annotated[
    str | None,
    typer.Option(
        "--profile", help="Use the runs of this profile; default: the largest that was run."
    ),
]
_TargetThatRan = Annotated[
    str | None,
    typer.Option("--target", help="The target of the runs; default: that of the last run."),
]


def _selecting(command: Callable[[Repo, list[Selection]], None]) -> Callable[..., None]:
    """Give a command the arguments that select studies and parts of them."""

    def with_arguments(
        study_name: Annotated[
            str, typer.Argument(help="A study of paper/studies, or `all` that are rerun.")
        ] = "all",
        profile: Annotated[
            str, typer.Option(help=f"How much to run: {', '.join(PROFILES)}.")
        ] = "quick",
        target_name: _TargetOrStudys = None,
        engine: Annotated[
            list[str], typer.Option("--engine", help="Only this engine; repeatable.")
        ] = (),
        variant: Annotated[
            list[str], typer.Option("--variant", help="Only this variant; repeatable.")
        ] = (),
        workload: Annotated[
            list[str], typer.Option("--workload", help="Only this workload; repeatable.")
        ] = (),
        retry_refused: Annotated[
            bool,
            typer.Option(
                "--retry-refused",
                help="Also run what was refused before: an engine may be available now.",
            ),
        ] = False,
    ) -> None:
        checkout = repo.find()
        parts = {"engine": list(engine), "variant": list(variant), "workload": list(workload)}
        names = study.names_with(checkout, parts) if study_name == "all" else [study_name]
        targets = {name: target_name or study.load(checkout, name).target for name in names}
        command(
            checkout,
            [
                Selection(name, profile, targets[name], *parts.values(), retry_refused)
                for name in names
            ],
        )

    # typer takes the arguments from the signature, and name and help text from these two
    with_arguments.__name__, with_arguments.__doc__ = command.__name__, command.__doc__
    return with_arguments


@_typer.command()
@_selecting
def plan(checkout: Repo, selections: list[Selection]) -> None:
    """Show what would run, how long it takes, and what it cannot decide."""
    from benchlab import target
    from benchlab.claims import foreseen
    from benchlab.run import estimate
    from benchlab.run.repeats import to_repeat
    from benchlab.target import provision

    for selection in selections:
        spec = study.load_rerun(checkout, selection.study)
        whole = planning.planned(checkout, selection, spec)
        batches = selection.part(spec, whole)
        rest, again = planning.left(checkout, selection, batches), []
        with suppress(StoreError):  # nothing was run yet, or `run` says what is wrong with it
            again = to_repeat(checkout, selection.target, batches, whole)
        rest += again
        todo = {key for batch in rest for key in batch.keys}
        _show_curves(
            f"{selection.study}, profile {selection.profile}, target {selection.target}",
            batches,
            todo,
        )
        _say(f"{len(batches)} batches; the runs are in a random order across curves")
        runs = sum(len(batch.trials) for batch in batches)
        on = target.load(checkout, selection.target)
        refused = provision.refusals(checkout, on, spec, {batch.engine for batch in batches})
        tried = [batch for batch in rest if batch.engine not in refused]
        seconds = estimate.of_batches(tried, checkout, selection.target)
        took = f"; about {max(1, round(seconds / 60))} min, restarts and loading included"
        repeats = sum(len(batch.trials) for batch in again)
        of_them = f", {repeats} of them to be repeated" if repeats else ""
        console.print(f"{runs} runs, {len(todo)} left{of_them}{took if rest else ''}")
        for engine, reason in sorted(refused.items()):
            if count := sum(len(batch.trials) for batch in rest if batch.engine == engine):
                _say(f"{count} of them will be refused, those of {spec.label(engine)}: {reason}")
        instance = target.instance_type(checkout, spec.instance)
        of_spec = (spec, instance, whole)
        _show_claims("these runs cannot decide", foreseen.undecidable(*of_spec))
        _show_claims("these runs can refute, but not confirm", foreseen.only_refutable(*of_spec))
        profile = spec.profile(selection.profile)
        if profile.most_trials:
            _say(f"points of inconclusive claims then get up to {profile.most_trials} trials")
        if profile.trials < 2:
            _say("one trial has no interval: claims about a ratio will be inconclusive")


def _show_claims(what: str, found: "Iterable[tuple[Claim, str]]") -> None:
    """Print how many claims something is said of, and their ids by the reason."""
    by_reason = defaultdict(list)
    for claim, reason in found:
        by_reason[reason].append(claim.id)
    if count := sum(map(len, by_reason.values())):
        _say(f"{what} {count} {'claim' if count == 1 else 'claims'}:")
    for reason, claims in by_reason.items():
        _say(f"  {reason}: {', '.join(claims)}")


@_typer.command()
@_selecting
def run(checkout: Repo, selections: list[Selection]) -> None:
    """Run what is left of the plan.

    In `standard`, and in `paper` for most studies, a run that was not steady, shared the CPU, or ran
    while the host had another speed is repeated once. In `standard`, the points of inconclusive claims
    get further trials (not in `cached_tables`). If several studies are selected, those that their
    target cannot run are left out. The exit code is 3 if runs failed or a study was left out.
    """
    from benchlab.claims import audit, published

    # errors that would prevent building the paper are reported before hours of measuring
    for selection in selections:
        spec = study.load_rerun(checkout, selection.study)
        published.check(checkout, spec)
        audit.of_study(checkout, spec)
    failed, left_out = 0, []
    for number, selection in enumerate(selections, start=1):
        try:
            failed += _run(checkout, selection, selections[number:])
        except (TargetError, ProvisionError) as error:
            if len(selections) == 1:
                raise
            _say(f"{selection.study} is left out: {error}")
            left_out.append(selection.study)
    reasons = [f"{', '.join(left_out)}: left out for the reasons above"] if left_out else []
    if failed:
        reasons.append(f"{failed} runs failed; `benchlab status` says why, a rerun repeats them")
    if reasons:
        raise Incomplete("; ".join(reasons))


def _run(checkout: Repo, selection: Selection, then: list[Selection]) -> int:
    """Run what is left of a selection, and further trials; return how many of them failed at last."""
    from benchlab.claims import further
    from benchlab.run import sweep

    ended = sweep.run(checkout, selection, console, then=then)
    if study.load_rerun(checkout, selection.study).profile(selection.profile).most_trials:
        console.print(f"{selection.study}: further trials for inconclusive claims")
        once = replace(selection, retry_refused=False)  # they have just been tried again
        # what has failed is run once more
        ended |= sweep.run(checkout, once, console, further.planned, then)
    counts = Counter(ended.values())
    if counts:
        said = ", ".join(f"{count} {status}" for status, count in counts.items())
        console.print(f"{selection.study}: {said}")
    return counts["failed"]


@_typer.command()
def intervene(
    study_name: Annotated[str, typer.Argument(help="A study of paper/studies.")],
    engine: Annotated[str, typer.Option(help="An engine of the study.")],
    workload: Annotated[str, typer.Option(help="A workload of the study.")],
    threads: Annotated[
        int, typer.Option(help="Clients on this machine, not the article's number.")
    ],
    variant: Annotated[str, typer.Option(help="A variant of the engine.")] = "default",
    envelope: Annotated[
        str, typer.Option(help="An envelope rule of the study.")
    ] = study.DEFAULT_ENVELOPE,
    profile: Annotated[
        str, typer.Option(help=f"The profile with the scale: {', '.join(PROFILES)}.")
    ] = "quick",
    target_name: _TargetOrStudys = None,
    resource: Annotated[
        list[str],
        typer.Option(
            "--resource", help=f"Lower only these limits: {', '.join(LOWERED)}; repeatable."
        ),
    ] = (),
    factor: Annotated[
        float, typer.Option(help="Limit in a block, as a share of the limit in force.")
    ] = 0.8,
    block_s: Annotated[
        int,
        typer.Option(
            "--block", help="Length of a block in seconds; its first second does not count."
        ),
    ] = 5,
    blocks: Annotated[int, typer.Option(help="Blocks of each resource.")] = 6,
    trial: Annotated[
        int, typer.Option(help="Number of the trial; a new number runs the point again.")
    ] = 1,
) -> None:
    """Lower one limit at a time during one run, and show how much throughput each limit costs."""
    from benchlab import store
    from benchlab.run import sweep

    checkout = repo.find()
    try:
        requested = LimitBlocks(
            resources=tuple(resource or LOWERED), factor=factor, block_s=block_s, blocks=blocks
        )
        where = InterventionPoint(
            engine=engine,
            variant=variant,
            workload=workload,
            concurrency=threads,
            envelope=envelope,
        )
    except ValidationError as error:
        raise BenchlabError(f"intervene: {strict.problem(error)}") from error
    spec = study.load_rerun(checkout, study_name)
    selection = Selection(study_name, profile, target_name or spec.target)
    planned = partial(planning.intervention, where, requested, trial)
    sweep.run(checkout, selection, console, planned)
    (batch,) = planned(checkout, selection, spec).batches
    with store.open_store(checkout.store) as opened:
        done = opened.runs(trial_key=batch.trials[0].key, target=selection.target, status="ok")
        if done.is_empty():
            raise BenchlabError("the run failed or was refused; `benchlab status` says why")
        run_id = done["run_id"][-1]
        found = opened.table("elasticity", run_id).drop("run_id")
    import polars.selectors as cs

    _show(batch.name, found.with_columns(cs.float().round(2)))
    _say(f"{checkout.raw / run_id}")


@_typer.command("ingest")
def ingest_command(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the store anew from all raw folders.")
    ] = False,
) -> None:
    """Bring raw folders into the store."""
    from benchlab.store import ingest

    checkout = repo.find()
    done = ingest.rebuild(checkout) if rebuild else ingest.ingest_new(checkout)
    for reason in done.damaged.values():
        _say(f"damaged: {reason}")
    console.print(f"{done.count} runs ingested into {checkout.store}")
    if done.damaged:
        raise BenchlabError(
            f"{len(done.damaged)} damaged runs or plans; restore their files, or move them out of"
            f" {checkout.raw}: `benchlab run` repeats them"
        )


# All runs, with whether they are the last ones of their trials.
_RANKED = """
    WITH ranked AS (
        SELECT *,
            row_number() OVER (PARTITION BY target, trial_key ORDER BY started DESC) = 1 AS is_last
        FROM run
    )
"""
_COUNTS = f"""
    {_RANKED} SELECT study, profile, engine, variant,
        count(*) FILTER (is_last AND status = 'ok' AND intervention IS NULL) AS ok,
        count(*) FILTER (is_last AND status = 'failed') AS failed,
        count(*) FILTER (is_last AND status = 'refused') AS refused,
        count(*) FILTER (is_last AND status = 'ok' AND intervention IS NOT NULL) AS intervened,
        count(*) FILTER (NOT is_last) AS repeated
    FROM ranked GROUP BY ALL ORDER BY ALL
"""
_REASONS = f"""
    {_RANKED} SELECT study, profile, engine, variant, workload, status, error, count(*) AS runs
    FROM ranked WHERE is_last AND status <> 'ok' GROUP BY ALL ORDER BY ALL
"""


@_typer.command()
def status() -> None:
    """Show what the store holds, and what failed, was refused or never finished.

    Of each trial only the last run counts; the runs before it are shown as repeated.
    """
    from benchlab import store
    from benchlab.raw import folders
    from benchlab.run import lock
    from benchlab.store import ingest

    checkout = repo.find()
    damaged = ingest.ingest_new(checkout).damaged
    with store.open_store(checkout.store) as opened:
        counts, reasons = opened.sql(_COUNTS), opened.sql(_REASONS)
    _show("runs", counts)
    if not reasons.is_empty():
        _show("not counted", reasons)
    for reason in damaged.values():
        _say(f"damaged: {reason}")
    unfinished = folders.unfinished(checkout.raw)
    user = lock.user()
    for folder in unfinished:
        _say(f"unfinished{'' if user else ' (killed)'}: {folder.name}")
    if unfinished and user:
        _say(f"One of them may be running now: this machine is in use by {user}.")
    elif unfinished:
        _say(
            "What a killed command left running or mounted is taken down by `benchlab teardown`, and"
            " by the next `benchlab run`."
        )


@_typer.command()
def verdicts(
    study_name: Annotated[str, typer.Argument(help="A study of paper/studies, or `all`.")] = "all",
    profile: _ProfileThatRan = None,
    target_name: _TargetThatRan = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Another rerun to compare with: `reference`, or a folder that `export` wrote. The exit"
            " code is 1 if they agree on fewer than 95 % of the claims that both tested, or if two"
            " verdicts are opposite. They agree if the verdict is the same, or if it is inconclusive in"
            " one and the numbers do not differ significantly."
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(help="The id of a claim: its test, the runs that it uses, and their limits."),
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Also add the verdicts to data/reruns.csv; the paper compares its own with those.",
        ),
    ] = False,
    source: Annotated[
        str,
        typer.Option(
            help="Whose runs: `store` (your own), `reference` (those that come with benchlab), or a"
            " folder that `export` wrote."
        ),
    ] = "store",
) -> None:
    """Show whether runs reproduce each claim of the articles, and why.

    For all studies it shows how many claims have which verdict; for one named study each claim.
    """
    import benchlab
    from benchlab.claims import reruns
    from benchlab.claims.judge import judge
    from benchlab.store import ingest, open_store

    is_own = source == "store"
    if why and (against or record):
        raise BenchlabError("--why cannot be combined with --against or --record")
    if record and not is_own:
        raise BenchlabError("--record is for your own runs: it cannot be combined with --source")
    checkout = repo.find()
    names = study.names(checkout) if study_name == "all" else [study_name]
    other = benchlab.open(against) if against else None
    if is_own:
        ingest.ingest_new(checkout)
    opened = open_store(checkout.store) if is_own else benchlab.open(source)
    if why:
        with opened:
            _show_why(checkout, opened, names, why, (profile, target_name))
        return
    with opened, console.status("judging"):
        found = {name: _rerun(checkout, opened, name, profile, target_name) for name in names}
        judged = {name: judge(checkout, name, rerun) for name, rerun in found.items()}
        gates = [_gate(rerun) for rerun in found.values() if rerun]
        if record:
            reruns.record(
                checkout, [(rerun, judged[name]) for name, rerun in found.items() if rerun]
            )
    if is_own and not any(found.values()):
        _say(
            "no runs yet; `--source reference` shows the verdicts of the runs that come with benchlab"
        )
    _show_summary(judged)
    for line in gates:
        _say(line)
    if study_name == "all":
        _say("Each claim, with what decided it: `benchlab verdicts STUDY`.")
    else:
        _show_verdicts(study_name, judged[study_name])
    if other:
        ran = {name: rerun.profile if rerun else profile for name, rerun in found.items()}
        with other:
            _compare(
                [one for judgements in judged.values() for one in judgements],
                [
                    one
                    for name in names
                    for one in judge(checkout, name, _rerun(checkout, other, name, ran[name]))
                ],
            )


@_typer.command("noise")
def noise_command(
    study_name: Annotated[str, typer.Argument(help="A study that is rerun.")],
    profile: _ProfileThatRan = None,
    target_name: _TargetThatRan = None,
) -> None:
    """Show how much two runs of the same point differ on your machine, and how many trials help."""
    from benchlab import store
    from benchlab.report import noise
    from benchlab.store import ingest, results

    checkout = repo.find()
    study.load_rerun(checkout, study_name)
    ingest.ingest_new(checkout)
    with store.open_store(checkout.store) as opened:
        rerun = results.open_rerun(checkout, opened, study_name, profile, target_name)
        found, gate = noise.table(rerun), _gate(rerun)
    if found.is_empty():
        raise BenchlabError(
            f"no point of {study_name} has two trials in profile {rerun.profile}: run"
            f" `benchlab run {study_name} --profile standard`"
        )
    _show(f"{study_name}, profile {rerun.profile}: noise of two runs of the same point", found)
    _say(gate)


@_typer.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder to write to; must not exist.")],
    profile: Annotated[
        str | None, typer.Option(help=f"Only the runs of this profile: {', '.join(PROFILES)}.")
    ] = None,
) -> None:
    """Write the store as Hive-partitioned Parquet, which DuckDB, Polars, Spark and Trino read."""
    from benchlab import store
    from benchlab.claims import stored
    from benchlab.store import results

    if folder.exists():
        raise BenchlabError(f"{folder} exists already; name a new folder")
    if profile not in (None, *PROFILES):
        raise UnknownName("profile", profile, PROFILES)
    checkout = repo.find()
    with store.open_store(checkout.store) as opened:
        stored.write(checkout, opened)
        opened.export(folder, dict.fromkeys(results.studies(opened), profile) if profile else None)
    console.print(f"written to {folder}")


@_typer.command("doctor")
def doctor_command(target_name: _TargetName = "local") -> None:
    """Show what a target can run, and why it cannot run the other engines."""
    from benchlab import target
    from benchlab.target import doctor

    checkout = repo.find()
    findings = doctor.examine(checkout, target.load(checkout, target_name))
    table = Table(title=f"target {target_name}")
    for heading in ("what", "", "detail"):
        table.add_column(heading)
    for finding in findings:
        mark = "[green]yes[/green]" if finding.usable else "[red]no[/red]"
        table.add_row(finding.what, mark, escape(finding.detail))
    console.print(table)


@_typer.command("paper")
def paper_command() -> None:
    """Build paper/build/paper.html and paper.pdf, and the analysis notebooks on your own runs."""
    from benchlab.report import build

    built = build.publish(repo.find(), console)
    for warning in built.warnings:
        console.print(f"[yellow]{warning}[/yellow]")
    console.print(f"{built.html}\n{built.pdf}")


@_typer.command("published")
def published_command(
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Write the counts to the dictionary; name what must be written by hand."
        ),
    ] = False,
) -> None:
    """For maintainers: compare rows, cells and sums of data/published with its dictionary.

    The dictionary is `sources.csv` and `columns.csv` there.
    """
    from benchlab.claims import dictionary, published

    checkout = repo.find()
    if write:
        for cell in dictionary.write(checkout):
            _say(f"to be written by hand: {cell}")
        return
    for name in study.names(checkout):
        published.check(checkout, study.load(checkout, name))
    differing = dictionary.differences(checkout)
    for one in differing:
        _say(one)
    if differing:
        raise BenchlabError(
            f"{len(differing)} rows are not what the files of data/published have; `benchlab"
            " published --write` counts them anew"
        )


@_typer.command("reference")
def reference_command(
    kept: Annotated[
        bool,
        typer.Option(
            "--kept", help="Keep the reference's runs; make anew only what is made from them."
        ),
    ] = False,
) -> None:
    """For maintainers: make data/reference from your own runs, and all that is made from it."""
    from benchlab.report import reference

    make = reference.renew if kept else reference.make
    make(repo.find(), console)


@_typer.command()
def teardown(
    target_name: _TargetName = "local",
    wipe: Annotated[
        bool,
        typer.Option(
            "--wipe",
            help="Also delete the engines' data, snapshots, users and settings on the target.",
        ),
    ] = False,
) -> None:
    """Stop every engine and remove mounts, loop devices and cgroups from a target."""
    from benchlab import target
    from benchlab.run.lock import locked
    from benchlab.run.ready import take_down
    from benchlab.target import preflight
    from benchlab.target.lab import Lab
    from benchlab.target.provision import playbook

    checkout = repo.find()
    on = target.load(checkout, target_name)
    preflight.root(on)
    if wipe and any(node.connection == "local" for node in on.nodes):
        preflight.outside_of_home(checkout.root, checkout.data)
    with locked():
        if not on.is_lab:  # the hosts of a lab go with all that is on them
            take_down(on)
            if wipe:
                playbook(checkout, target_name, "teardown", {"teardown_wipe": True})
        if on.is_lab or any(node.connection == "local" for node in on.nodes):
            Lab().down()
    console.print(f"target {target_name}: nothing of benchlab is running")


@_lab.command("up")
def lab_up(target_name: _TargetName = "lab") -> None:
    """Make a host of namespaces for every node of an inventory."""
    from benchlab import target
    from benchlab.run.lock import locked
    from benchlab.target.lab import Lab

    deployment = target.load(repo.find(), target_name)
    if not deployment.is_lab:
        raise BenchlabError(
            f"target {target_name} is no lab: its hosts exist already; name one such as `--target lab`"
        )
    with locked():
        Lab().up(deployment)
    console.print(f"{len(deployment.nodes)} hosts: `benchlab run --target {target_name}` uses them")


@_lab.command("down")
def lab_down() -> None:
    """Remove the hosts, with all that is on them."""
    from benchlab.run.lock import locked
    from benchlab.target.lab import Lab

    with locked():
        there = Lab().down()
    console.print("lab removed" if there else "there is no lab")


def _show_curves(title: str, batches: list[Batch], todo: Collection[str]) -> None:
    """Show the curves whose trials are in batches, and how many of the trials are left to run."""
    curves = defaultdict(list)
    for batch in batches:
        for trial in batch.trials:
            kind = batch.intervention is not None, batch.is_open
            curves[*kind, trial.point.curve].append(trial)
    table = Table(title=title)
    for heading in ("curve", "points", "trials", "left"):
        table.add_column(heading, justify="right" if heading in ("trials", "left") else "left")
    for (is_lowered, is_open, _), trials in sorted(curves.items()):
        points = [trial.point for trial in trials]
        places = sorted({one.share_of_peak if is_open else one.concurrency for one in points})
        kind = "-intervention" if is_lowered else "-open" if is_open else ""
        left = sum(trial.key in todo for trial in trials)
        table.add_row(
            f"{label(trials)}{kind}",
            " ".join(f"{place:.0%}" if is_open else str(place) for place in places),
            str(len({trial.number for trial in trials})),
            f"{left} of {len(trials)}",
        )
    console.print(table)


def _rerun(
    checkout: Repo, opened: "Store", name: str, profile: str | None, target_name: str | None = None
) -> "Rerun | None":
    """Return the rerun of a study to judge, or ``None`` if there is none."""
    from benchlab.store import results

    if not study.load(checkout, name).is_rerun:
        return None
    return results.find_rerun(checkout, opened, name, profile, target_name)


def _show_why(
    checkout: Repo,
    opened: "Store",
    names: list[str],
    claim: str,
    chosen: tuple[str | None, str | None],
) -> None:
    """Show one claim of these studies, with all that its verdict depends on."""
    from benchlab.claims.judge import judge
    from benchlab.report import why

    claims = {one.id: name for name in names for one in study.load(checkout, name).claims}
    if claim not in claims:
        raise UnknownName("claim", claim, claims)
    rerun = _rerun(checkout, opened, claims[claim], *chosen)
    judged = judge(checkout, claims[claim], rerun)
    one = next(one for one in judged if one.claim.id == claim)
    for line in why.lines(one):
        _say(line)
    if rerun and one.claim.series:
        _say(f"limits    {why.limits(rerun)}")
        _show(f"runs of profile {rerun.profile} on {rerun.target}", why.runs(rerun, one))


def _gate(rerun: "Rerun") -> str:
    """Return a line: how many runs and points of a study passed the gate."""
    from benchlab.report import gate

    found = gate.summary(rerun)
    return (
        f"{rerun.study.study}: {found['runs_passed']} of {found['runs']} runs and"
        f" {found['points_passed']} of {found['points']} points passed the gate"
    )


def _show_summary(judged: "dict[str, list[Judgement]]") -> None:
    """Print for each study how many claims have which verdict, and how many audits do not hold."""
    from benchlab.report import verdicts

    for study_name, judgements in judged.items():
        of_runs = verdicts.of_runs(judgements)
        counts = Counter(one.verdict for one in of_runs)
        _say(f"{study_name}: {', '.join(f'{counts[name]} {name}' for name in verdicts.VERDICTS)}")
        audits = [one for one in judgements if one not in of_runs]
        if failed := sum(one.verdict == "not reproduced" for one in audits):
            _say(f"  {failed} of {len(audits)} audits, which need no run, contradict the article")


def _show_verdicts(study_name: str, judgements: "list[Judgement]") -> None:
    import polars as pl

    from benchlab.report import verdicts

    table = verdicts.table(judgements)
    _show(study_name, table.with_columns(claim=pl.format("{}: {}", "id", "claim")).drop("id"))


def _compare(own: "list[Judgement]", others: "list[Judgement]") -> None:
    from benchlab.claims import stability
    from benchlab.report import verdicts

    found = stability.compare(verdicts.of_runs(own), verdicts.of_runs(others))
    for one, other in found.differing:
        _say(
            f"{one.study} {one.claim.id}: {one.verdict} ({one.found or one.reason}); there:"
            f" {other.verdict} ({other.found or other.reason})"
        )
    if not (of_both := len(found.pairs)):
        raise BenchlabError("the two reruns cannot be compared: no claim was tested by both")
    _say(
        f"the two reruns agree on {found.agreeing} of the {of_both} claims that both tested;"
        f" {found.same} have the same verdict in both, {found.tested_once} more were tested by one"
    )
    if not found.is_stable:
        raise BenchlabError(
            f"the two reruns differ: they agree on {found.share_of(found.agreeing):.0%} of the claims"
            f" (at least {stability.LEAST_AGREEING:.0%} are needed), {found.opposite} verdicts are"
            " opposite"
        )


def app() -> None:
    """Run the command line; an error that a user can act on is one line and its exit code."""
    # a closed terminal and a service manager end benchlab like Ctrl-C, so that it cleans up
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup wants it to go on
            signal.signal(number, signal.default_int_handler)
    try:
        _typer()
    except BenchlabError as error:
        # not wrapped and not read as markup: scripts and people grep for the one line
        said = "; ".join([str(error), *getattr(error, "__notes__", ())])
        Console(stderr=True).print(
            f"benchlab: {said}", style="red", highlight=False, markup=False, soft_wrap=True
        )
        sys.exit(error.exit_code)
    except SystemExit as ended:
        if ended.code == 130:  # typer's exit code for Ctrl-C
            Console(stderr=True).print("benchlab: stopped; finished runs are kept", style="red")
        raise


def _say(line: str) -> None:
    """Print a line unchanged: not wrapped and not read as markup."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _show(title: str, frame: "pl.DataFrame") -> None:
    table = Table(title=title)
    for name, dtype in frame.schema.items():
        table.add_column(name, justify="right" if dtype.is_numeric() else "left")
    for row in frame.iter_rows():
        # messages of programs may have brackets, which are no markup
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    console.print(table)
