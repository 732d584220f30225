"""A target that is provisioned for what runs next, and on which nothing is left afterwards."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from rich.console import Console

from benchlab import study, target
from benchlab.errors import TargetError
from benchlab.plan import Batch, envelope, largest_envelope
from benchlab.plan.envelope import Envelope
from benchlab.repo import Repo
from benchlab.run import planning
from benchlab.run.lock import locked
from benchlab.run.planning import Selection, left
from benchlab.study import Study
from benchlab.target import Deployment, Provisioned, lab, preflight, provision
from benchlab.target.host import COPY_TIMEOUT_S


def check_free(on: Deployment) -> None:
    """Check at once what :func:`ready` needs: rights on a target, its system, an unlocked machine.

    Raises:
        TargetError: one is missing.
    """
    preflight.root(on)
    preflight.system(on)
    with locked():
        pass


@contextmanager
def ready(
    repo: Repo,
    selection: Selection,
    spec: Study,
    batches: list[Batch],
    console: Console,
    then: Sequence[Selection] = (),
) -> Iterator[Provisioned]:
    """Provide a target that is provisioned for these batches; take everything down afterwards.

    Packages and downloads of the engines of later selections (``then``) on the same target are
    installed together with those of these batches: packages in one transaction, downloads at the same
    time.
    """
    on = target.load(repo, selection.target)
    engines = sorted({batch.engine for batch in batches})
    limits = _limits(repo, selection, spec, on, engines)
    what = (repo, on, spec, selection.profile, limits, engines)

    def install() -> None:
        with console.status("installing") as status:
            provision.install(*what, lambda name: status.update(f"installing: {name}"))

    with locked(), lab.made(on, install), _taken_down(on):
        of_study = [spec.engines[name] for name in engines]
        preflight.check(on, largest_envelope(batches), preflight.at_once(on, of_study))
        later = [
            engine
            for one in then
            if one.target == selection.target
            for engine in engines_left(repo, one, on)
        ]
        with console.status("provisioning") as status:
            found = provision.provision(
                *what, lambda name: status.update(f"provisioning: {name}"), later
            )
        yield found


def engines_left(repo: Repo, selection: Selection, on: Deployment) -> list[dict]:
    """Return the playbooks' variables for engines that a selection still needs and the target lacks."""
    spec = study.load_rerun(repo, selection.study)
    batches = selection.part(spec, planning.planned(repo, selection, spec))
    known: set[str] = set()
    with suppress(TargetError):  # never provisioned: all are new
        known = set(target.provisioned(repo, on.name).engines)
    engines = sorted({batch.engine for batch in left(repo, selection, batches)} - known)
    limits = _limits(repo, selection, spec, on, engines)
    of_roles = provision.provided(on, spec, engines)
    return provision.engine_variables(spec, selection.profile, limits, of_roles)


def take_down(on: Deployment) -> None:
    """Stop load and engines, and remove mounts, loop devices and cgroups; safe at any time.

    Raises:
        TargetError: a node could not be taken down; the other nodes are down.
    """
    errors = []
    for node in reversed(on.nodes):  # the load first, so that it ends before what it uses
        try:
            if node.provisioned():
                node.agent("envelope", "down", timeout_s=COPY_TIMEOUT_S)
        except TargetError as error:
            errors.append(str(error))
    if errors:
        raise TargetError("; ".join(errors))


def _limits(
    repo: Repo, selection: Selection, spec: Study, on: Deployment, engines: Collection[str]
) -> Envelope:
    """Return the limits to provision: those of the study's first envelope."""
    instance = target.instance_type(repo, spec.instance)
    profile, rule_name = spec.profile(selection.profile), next(iter(spec.envelopes))
    return envelope.resolve(spec, profile, instance, rule_name, on.enforce, engines)


@contextmanager
def _taken_down(on: Deployment) -> Iterator[None]:
    """Remove what a killed sweep left, and leave nothing behind on any exit."""
    take_down(on)
    try:
        yield
    except BaseException as error:
        try:
            take_down(on)
        except TargetError as left:
            error.add_note(str(left))
        raise
    take_down(on)
