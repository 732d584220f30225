"""Plan a study's profile for a target: which trials, and in which order."""

import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchlab.errors import TargetError, UnknownName
from benchlab.plan.envelope import Envelope, resolve
from benchlab.plan.plan import Plan
from benchlab.plan.point import AS_FOUND, Curve, Point, Trial
from benchlab.study import (
    Block,
    Instance,
    InterventionPoint,
    OfMemory,
    OpenLoop,
    Profile,
    Scalar,
    Settings,
    Study,
)
from benchlab.study.intervention import WITHOUT_ENVELOPE, Intervention


@dataclass(frozen=True)
class Planner:
    """A profile of a study, to be planned for a target."""

    study: Study
    profile_name: str
    instance: Instance
    """The instance type that the study names."""
    versions: dict[str, str]
    """Engine → version, for every engine that the study names."""
    enforce: bool = True
    """Whether the target is larger than the instance type and must be held to it."""

    def plan(self, target: str) -> Plan:
        """Return the whole plan.

        Open loops come after the curves whose throughput determines their rates. Interventions come
        last: they explain what the curves show.

        Args:
            target: name of the inventory.

        Raises:
            UnknownName: the study has no such profile.
        """
        return self._written(target, [*self.curves(), *self.open_loops(), *self.interventions()])

    def by_hand(
        self, target: str, where: InterventionPoint, requested: Intervention, number: int
    ) -> Plan:
        """Return one intervention, whether or not it is the study's own, as a plan of one curve.

        Raises:
            UnknownName: the study has no such point.
            TargetError: no limit is in force on the target that could be lowered.
        """
        return self._written(target, [self.intervention(where, requested, number)], whole=False)

    def curves(self, seed: int = 1) -> list[Curve]:
        """Return the curves along concurrency in the order in which they are to be run.

        Trials are interleaved: all curves of trial 1 in random order, then all of trial 2, and within
        a curve the concurrencies in random order, so that a drift of the machine cannot pass for an
        effect.

        Args:
            seed: of the order.

        Raises:
            UnknownName: the study has no such profile.
        """
        of_profile = self._profile.concurrency
        return self._interleaved(
            self.study.matrix,
            lambda block: [{"concurrency": one} for one in block.concurrency or of_profile],
            seed,
        )

    def open_loops(self, seed: int = 1) -> list[Curve]:
        """Return the curves along shares of the highest throughput; see :meth:`curves`."""
        return self._interleaved(
            self.study.open_loops,
            lambda block: [
                {
                    "concurrency": block.concurrency,
                    "share_of_peak": share,
                    "transactions_per_client": None,
                }
                for share in block.shares
            ],
            seed,
        )

    def interventions(self) -> list[Curve]:
        """Return the profile's interventions in the study's order, each a curve of one trial.

        Those of which no limit is in force on the target are left out.
        """
        of_profile = self._profile.intervention
        if of_profile is None:
            return []
        return [
            self.intervention(where, where.resolved(of_profile))
            for where in self.study.interventions
            if self.profile_name in where.profiles
            and where.resolved(of_profile).within(self.enforce)
            and not self.study.engine(where.engine).external
        ]

    def intervention(
        self, where: InterventionPoint, requested: Intervention, number: int = 1
    ) -> Curve:
        """Return one point under an intervention, as a curve of one trial as long as the blocks are.

        Resources whose limit is not in force on the target are left out.

        Raises:
            UnknownName: the study has no such point.
            TargetError: no limit is left.
        """
        for kind, name, choices in (
            ("variant", where.variant, self.study.engine(where.engine).variants),
            ("workload", where.workload, self.study.workloads),
            ("envelope", where.envelope, self.study.envelopes),
        ):
            if name not in choices:
                raise UnknownName(kind, name, choices)
        if self.study.engine(where.engine).external:
            raise TargetError(
                f"{where.engine}: somebody else runs it, nothing can be lowered there"
            )
        intervention = requested.within(self.enforce)
        if intervention is None:
            raise TargetError(
                "no limit is in force that could be lowered, since the target enforces no envelope;"
                f" choose one of: {', '.join(WITHOUT_ENVELOPE)}"
            )
        point = self._point(self._envelope(where.envelope), *where.curve)
        changes = {
            "concurrency": where.concurrency,
            "measure_s": intervention.measure_s,
            "transactions_per_client": None,
        }
        trial = Trial(
            point=point.model_copy(update=changes),
            number=number,
            profile=self.profile_name,
            intervention=intervention,
        )
        return Curve(
            engine=where.engine,
            variant=where.variant,
            workload=where.workload,
            envelope=where.envelope,
            trial=number,
            trials=(trial,),
        )

    def _written(self, target: str, curves: list[Curve], whole: bool = True) -> Plan:
        return Plan(
            study=self.study.study,
            profile=self.profile_name,
            target=target,
            planned=datetime.now(UTC),
            versions=self.versions,
            whole=whole,
            curves=tuple(curves),
        )

    def _interleaved(
        self,
        blocks: Iterable[Block | OpenLoop],
        points: Callable[[Any], list[dict[str, Any]]],
        seed: int,
    ) -> list[Curve]:
        """Return the curves of all trials in a random order; ``points`` returns those of a block."""
        order, curves = random.Random(seed), []
        for number in range(1, self._profile.trials + 1):
            of_trial = [
                self._curve(block, combination, points(block), number, order)
                for block in blocks
                if self.profile_name in block.profiles
                for combination in itertools.product(block.engines, block.variants, block.workloads)
            ]
            order.shuffle(of_trial)
            curves += of_trial
        return curves

    def _curve(
        self,
        block: Block | OpenLoop,
        combination: tuple[str, str, str],
        points: list[dict[str, Any]],
        number: int,
        order: random.Random,
    ) -> Curve:
        engine, variant, workload = combination
        point = self._point(self._envelope(block.envelope), engine, variant, workload)
        trials = [
            Trial(point=point.model_copy(update=one), number=number, profile=self.profile_name)
            for one in points
        ]
        order.shuffle(trials)
        return Curve(
            engine=engine,
            variant=variant,
            workload=workload,
            envelope=block.envelope,
            trial=number,
            trials=tuple(trials),
        )

    @property
    def _profile(self) -> Profile:
        return self.study.profile(self.profile_name)

    def _envelope(self, rule: str) -> Envelope:
        return resolve(self.study, self._profile, self.instance, rule, self.enforce)

    def _point(self, envelope: Envelope, engine: str, variant: str, workload: str) -> Point:
        """Return a point without its concurrency."""
        study, profile = self.study, self._profile
        spec, writes = study.engines[engine], study.workloads[workload].writes
        if spec.external:
            envelope = envelope.model_copy(update={"enforce": False})
        return Point(
            study=study.study,
            engine=engine,
            role=study.engines[engine].role,
            nodes=spec.runs_on,
            variant=variant,
            engine_version=self.versions[engine],
            role_vars=study.engines[engine].role_vars,
            init=init_of(study, self.profile_name, engine),
            settings=settings_of(study, self.profile_name, engine, variant, envelope.memory_bytes),
            workload_name=workload,
            workload=study.workloads[workload],
            dataset=study.dataset(profile, workload),
            concurrency=0,
            envelope=envelope,
            warmup_s=profile.warmup_s,
            measure_s=profile.measure_s,
            transactions_per_client=profile.transactions_per_client,
            start=AS_FOUND if spec.external else profile.start,
            dataset_reset=profile.dataset_reset if writes and not spec.external else "none",
        )


def resolve_settings(requested: Settings, memory_bytes: int) -> dict[str, Scalar]:
    """Turn shares of memory into bytes."""
    return {
        name: value.resolve(memory_bytes) if isinstance(value, OfMemory) else value
        for name, value in requested.items()
    }


def settings_of(
    study: Study, profile_name: str, engine: str, variant: str, memory_bytes: int
) -> dict[str, Scalar]:
    """Return the resolved settings of a variant: the engine's, the variant's, the profile's."""
    spec = study.engine(engine)
    overrides = study.profile(profile_name).overrides.get(engine, {})
    merged = {**spec.settings, **spec.variants[variant], **overrides.get("settings", {})}
    return resolve_settings(merged, memory_bytes)


def init_of(study: Study, profile_name: str, engine: str) -> dict[str, Scalar]:
    """Return what an engine's data directory is initialised with in a profile."""
    overrides = study.profile(profile_name).overrides.get(engine, {})
    return {**study.engine(engine).init, **overrides.get("init", {})}


def selected(
    study: Study,
    curves: Iterable[Curve],
    engines: Iterable[str] = (),
    variants: Iterable[str] = (),
    workloads: Iterable[str] = (),
) -> list[Curve]:
    """Return the curves of the selected engines, variants and workloads, in their order.

    Args:
        study: that they are of.
        curves: of a plan.
        engines: names; none: all of them. Likewise ``variants`` and ``workloads``.
        variants: see ``engines``.
        workloads: see ``engines``.

    Raises:
        UnknownName: a name that the study does not have.
    """
    requested = {"engine": engines, "variant": variants, "workload": workloads}
    wanted = {kind: set(names) for kind, names in requested.items()}
    for kind, names in wanted.items():
        for name in sorted(names):
            if name not in study.choices[kind]:
                raise UnknownName(kind, name, study.choices[kind])
    return [
        curve
        for curve in curves
        if all(not names or getattr(curve, kind) in names for kind, names in wanted.items())
    ]
