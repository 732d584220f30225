"""The plan: which trials a study's profile asks for, in which order, and which of them are left.

A point is everything that can change a result; its key is the hash of all of it, so that a trial
already measured is recognised by its content and never by the name of a folder.
"""

import itertools
import random
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from benchlab.errors import TargetError, UnknownName
from benchlab.plan.envelope import Envelope, resolve
from benchlab.plan.point import Curve, Point, Trial
from benchlab.study import (
    Block,
    Instance,
    OfMemory,
    OpenLoop,
    Perturbed,
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

    def curves(
        self,
        engines: Iterable[str] = (),
        variants: Iterable[str] = (),
        workloads: Iterable[str] = (),
        seed: int = 1,
    ) -> list[Curve]:
        """Return the curves in the order in which they are to be run.

        Trials are interleaved: all curves of trial 1 in random order, then all of trial 2, and within
        a curve the concurrencies in random order, so that a drift of the machine cannot pass for an
        effect.

        Args:
            engines: only these (empty: all); likewise ``variants`` and ``workloads``.
            variants: see ``engines``.
            workloads: see ``engines``.
            seed: of the order.

        Raises:
            UnknownName: a profile or a selected name that the study does not have.
        """
        of_profile = self._profile.concurrency
        curves = self._interleaved(
            self.study.matrix,
            lambda block: [{"concurrency": one} for one in block.concurrency or of_profile],
            seed,
        )
        # selected last, so that a part of the plan runs in the order that it has in the whole
        return _selection(curves, _wanted(self.study, engines, variants, workloads))

    def open_loops(
        self,
        engines: Iterable[str] = (),
        variants: Iterable[str] = (),
        workloads: Iterable[str] = (),
        seed: int = 1,
    ) -> list[Curve]:
        """Return the curves along shares of the highest throughput; see :meth:`curves`."""
        curves = self._interleaved(
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
        return _selection(curves, _wanted(self.study, engines, variants, workloads))

    def interventions(
        self,
        engines: Iterable[str] = (),
        variants: Iterable[str] = (),
        workloads: Iterable[str] = (),
    ) -> list[Curve]:
        """Return the profile's interventions in the study's order, each a curve of one trial.

        Those of which no limit is in force on the target are left out. Arguments and errors are those
        of :meth:`curves`.
        """
        of_profile = self._profile.intervention
        wanted = _wanted(self.study, engines, variants, workloads)
        if of_profile is None:
            return []
        return [
            self.intervention(where, where.asked(of_profile))
            for where in self.study.interventions
            if self.profile_name in where.profiles
            and where.asked(of_profile).within(self.enforce)
            and _is_selected(where.curve, wanted)
        ]

    def intervention(self, where: Perturbed, asked: Intervention, number: int = 1) -> Curve:
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
        intervention = asked.within(self.enforce)
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

    def _interleaved(
        self,
        blocks: Iterable[Block | OpenLoop],
        points: Callable[[Any], list[dict[str, Any]]],
        seed: int,
    ) -> list[Curve]:
        """Return the curves of all trials in a random order; ``points`` tells those of a block."""
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
        return Point(
            study=study.study,
            engine=engine,
            role=study.engines[engine].role,
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
            start=profile.start,
            dataset_reset=profile.dataset_reset if study.workloads[workload].writes else "none",
        )


def resolve_settings(asked: Settings, memory_bytes: int) -> dict[str, Scalar]:
    """Turn shares of memory into bytes."""
    return {
        name: value.resolve(memory_bytes) if isinstance(value, OfMemory) else value
        for name, value in asked.items()
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


def _wanted(
    study: Study, engines: Iterable[str], variants: Iterable[str], workloads: Iterable[str]
) -> tuple[Collection[str], ...]:
    """Return the engines, variants and workloads that are selected."""
    asked = {"engine": engines, "variant": variants, "workload": workloads}
    return tuple(_selected(kind, names, study.choices[kind]) for kind, names in asked.items())


def _selected(kind: str, asked: Iterable[str], choices: Collection[str]) -> Collection[str]:
    asked = list(asked)
    for name in asked:
        if name not in choices:
            raise UnknownName(kind, name, choices)
    return asked or choices


def _selection(curves: Iterable[Curve], wanted: tuple[Collection[str], ...]) -> list[Curve]:
    return [
        curve
        for curve in curves
        if _is_selected((curve.engine, curve.variant, curve.workload), wanted)
    ]


def _is_selected(names: Iterable[str], wanted: Iterable[Collection[str]]) -> bool:
    return all(name in choices for name, choices in zip(names, wanted, strict=True))
