"""Plan a study's profile for a target: the trials and their order."""

import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchlab.engines import engine_class
from benchlab.errors import StudyError, TargetError, UnknownName
from benchlab.plan.batch import BATCH_TRIALS, Batch
from benchlab.plan.envelope import resolve
from benchlab.plan.plan import Plan
from benchlab.plan.point import AS_FOUND, Point, Trial
from benchlab.study import (
    Block,
    Instance,
    InterventionPoint,
    OpenLoop,
    OutcomesBlock,
    Profile,
    Scalar,
    Settings,
    SingleWritesBlock,
    Study,
)
from benchlab.study.intervention import WITHOUT_ENVELOPE, Intervention, LimitBlocks
from benchlab.study.kinds import driver_options


@dataclass(frozen=True)
class Planner:
    """Plans a profile of a study for a target."""

    study: Study
    profile_name: str
    instance: Instance
    """The instance type that the study names."""
    versions: dict[str, str]
    """Engine → version, for every engine that the study names."""
    enforce: bool = True
    """Whether the target is larger than the instance type and must be limited to it."""

    def plan(self, target: str) -> Plan:
        """Return the whole plan.

        Interventions come after the curves, whose results they explain. So do single writes and checks.
        A sweep runs open loops last, as the throughput of closed loops determines their rates.

        Args:
            target: name of the inventory.

        Raises:
            UnknownName: the study has no such profile.
        """
        batches = [
            *self.closed_loops(),
            *self.open_loops(),
            *self.interventions(),
            *self.single_writes(),
            *self.outcomes(),
        ]
        return self._written(target, batches)

    def by_hand(
        self, target: str, where: InterventionPoint, requested: LimitBlocks, number: int
    ) -> Plan:
        """Return a plan of one batch with one intervention, which need not be in the study.

        Raises:
            UnknownName: the study has no such point.
            TargetError: no limit that could be lowered is in force on the target.
        """
        return self._written(target, [self.intervention(where, requested, number)], whole=False)

    def closed_loops(self, seed: int = 1, numbers: Collection[int] = ()) -> list[Batch]:
        """Return the trials along concurrency, in batches in the order in which they are to be run.

        Consecutive runs share disturbances of the machine. So a batch is drawn at random from all
        curves of an engine: a disturbance is spread over the curves and does not look like an effect.
        All batches of trial 1 come first, in random order, then all of trial 2. So a drift of the
        machine does not look like an effect either.

        Args:
            seed: seed of the order.
            numbers: numbers of the trials; none: the numbers that every point has.

        Raises:
            UnknownName: the study has no such profile.
        """
        profile = self._profile

        def points(block: Block) -> list[dict[str, Any]]:
            warmup_s = profile.warmup_s if block.warmup_s is None else block.warmup_s
            longest_s = block.longest_s or profile.longest_s
            return [
                {"concurrency": one, "warmup_s": warmup_s, "longest_s": longest_s}
                for one in block.concurrency or profile.concurrency
            ]

        return self._shuffled(self.study.matrix, points, seed, numbers)

    def open_loops(self) -> list[Batch]:
        """Return the trials along shares of the highest throughput; see :meth:`closed_loops`."""
        return self._shuffled(
            self.study.open_loops,
            lambda block: [
                {
                    "concurrency": block.concurrency,
                    "share_of_peak": share,
                    "transactions_per_client": None,
                }
                for share in block.shares
            ],
            seed=1,
        )

    def interventions(self) -> list[Batch]:
        """Return the profile's interventions in the study's order, each a batch of one trial.

        Interventions without any limit in force on the target are left out.
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
        self, where: InterventionPoint, requested: LimitBlocks, number: int = 1
    ) -> Batch:
        """Return a batch of one trial: a point with an intervention, as long as its blocks together.

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
        return self._intervened(where, where.curve, intervention, number)

    def single_writes(self) -> list[Batch]:
        """Return the points with single writes, each trial a batch of its own.

        The points have the study's order. All have their first trial before any has its second.
        """
        return [
            batch
            for number in range(1, self._profile.trials + 1)
            for block in self.study.single_writes
            for batch in self._each(block, block.single_writes, number)
        ]

    def outcomes(self) -> list[Batch]:
        """Return the points with checks in the study's order, each a batch of one trial."""
        blocks = self.study.outcomes
        return [batch for block in blocks for batch in self._each(block, block.outcomes)]

    def _each(
        self, block: SingleWritesBlock | OutcomesBlock, intervention: Intervention, number: int = 1
    ) -> Iterator[Batch]:
        if self.profile_name in block.profiles:
            for curve in itertools.product(block.engines, block.variants, block.workloads):
                yield self._intervened(block, curve, intervention, number)

    def _intervened(
        self,
        where: InterventionPoint | SingleWritesBlock | OutcomesBlock,
        curve: tuple[str, str, str],
        intervention: Intervention,
        number: int = 1,
    ) -> Batch:
        changes = {"measure_s": intervention.measure_s, "transactions_per_client": None}
        trial = Trial(
            point=self._point(where.envelope, curve, where.concurrency, **changes),
            number=number,
            profile=self.profile_name,
            intervention=intervention,
        )
        return Batch(engine=trial.point.engine, trial=number, trials=(trial,))

    def _written(self, target: str, batches: list[Batch], whole: bool = True) -> Plan:
        return Plan(
            study=self.study.study,
            profile=self.profile_name,
            target=target,
            planned=datetime.now(UTC),
            versions=self.versions,
            whole=whole,
            batches=tuple(batches),
        )

    def _shuffled(
        self,
        blocks: Iterable[Block | OpenLoop],
        points: Callable[[Any], list[dict[str, Any]]],
        seed: int,
        numbers: Collection[int] = (),
    ) -> list[Batch]:
        """Return all trials of blocks in random batches; ``points`` returns the points of a block."""
        order, batches = random.Random(seed), []
        for number in numbers or range(1, self._profile.trials + 1):
            of_number = []
            for engine, trials in self._trials(blocks, points, number).items():
                order.shuffle(trials)
                count = math.ceil(len(trials) / BATCH_TRIALS)
                of_number += [
                    Batch(engine=engine, trial=number, number=one + 1, trials=trials[one::count])
                    for one in range(count)
                ]
            order.shuffle(of_number)
            batches += of_number
        return batches

    def _trials(
        self,
        blocks: Iterable[Block | OpenLoop],
        points: Callable[[Any], list[dict[str, Any]]],
        number: int,
    ) -> dict[str, list[Trial]]:
        """Return engine → all its trials with a number; one of several blocks is there once."""
        found: dict[str, dict[str, Trial]] = {}
        for block in blocks:
            if self.profile_name not in block.profiles:
                continue
            for curve in itertools.product(block.engines, block.variants, block.workloads):
                engine, *_ = curve
                for one in points(block):
                    point = self._point(block.envelope, curve, **one)
                    trial = Trial(point=point, number=number, profile=self.profile_name)
                    found.setdefault(engine, {})[trial.key] = trial
        return {engine: list(trials.values()) for engine, trials in found.items()}

    @property
    def _profile(self) -> Profile:
        return self.study.profile(self.profile_name)

    def _point(
        self, rule: str, curve: tuple[str, str, str], concurrency: int, **changes: Any
    ) -> Point:
        """Return a point of a curve (engine, variant, workload) in the envelope of a rule.

        ``changes`` replace what the profile says.
        """
        engine, variant, workload = curve
        study, profile = self.study, self._profile
        spec, requested = study.engines[engine], study.workloads[workload]
        resets = requested.writes and not spec.external
        defaults = driver_options(requested.driver).defaults(spec.role or engine)
        enforce = self.enforce and not spec.external
        envelope = resolve(study, profile, self.instance, rule, enforce, [engine], concurrency)
        point = Point(
            study=study.study,
            engine=engine,
            role=spec.role,
            nodes=spec.runs_on,
            variant=variant,
            engine_version=self.versions[engine],
            role_vars=spec.role_vars,
            init=init_of(study, self.profile_name, engine),
            settings=settings_of(study, self.profile_name, engine, variant, envelope.memory_bytes),
            log_disk=spec.log_disks.get(variant),
            workload_name=workload,
            workload=requested.model_copy(update={"options": {**defaults, **requested.options}}),
            dataset=study.dataset(profile, workload),
            concurrency=concurrency,
            envelope=envelope,
            warmup_s=profile.warmup_s,
            measure_s=profile.measure_s,
            longest_s=profile.longest_s,
            transactions_per_client=profile.transactions_per_client,
            log_latency=study.log_latency and not spec.external,
            start=AS_FOUND if spec.external else profile.start,
            dataset_reset=profile.dataset_reset if resets else "none",
        )
        return point.model_copy(update=changes)


def resolve_settings(requested: Settings, memory_bytes: int) -> dict[str, Scalar]:
    """Return settings with the sizes that depend on the scale as bytes."""
    return {
        name: value if isinstance(value, Scalar) else value.resolve(memory_bytes)
        for name, value in requested.items()
    }


def settings_of(
    study: Study, profile_name: str, engine: str, variant: str, memory_bytes: int
) -> dict[str, Scalar]:
    """Return the resolved settings of a variant: the engine's, the variant's, the profile's.

    Later ones replace earlier ones.

    Raises:
        StudyError: the server would cut off the value of a setting.
    """
    spec = study.engine(engine)
    overrides = study.profile(profile_name).overrides.get(engine, {})
    merged = {**spec.settings, **spec.variants[variant], **overrides.get("settings", {})}
    settings = resolve_settings(merged, memory_bytes)
    for name, (least, most) in engine_class(study.role(engine)).ranges.items():
        if name in settings and not least <= settings[name] <= most:
            raise StudyError(
                f"{study.study}: {engine}, {variant}: {name} is {settings[name]}, and the server takes"
                f" {least} to {most}"
            )
    return settings


def init_of(study: Study, profile_name: str, engine: str) -> dict[str, Scalar]:
    """Return the options with which an engine's data directory is initialised in a profile."""
    overrides = study.profile(profile_name).overrides.get(engine, {})
    return {**study.engine(engine).init, **overrides.get("init", {})}


def selected(
    study: Study,
    batches: Iterable[Batch],
    engines: Iterable[str] = (),
    variants: Iterable[str] = (),
    workloads: Iterable[str] = (),
) -> list[Batch]:
    """Return the batches with only the trials of the selected engines, variants and workloads.

    Args:
        study: study of the batches.
        batches: batches of a plan.
        engines: names; none: all engines. Likewise for ``variants`` and ``workloads``.
        variants: see ``engines``.
        workloads: see ``engines``.

    Raises:
        UnknownName: the study does not have one of the names.
    """
    requested = {"engine": engines, "variant": variants, "workload": workloads}
    wanted = {kind: set(names) for kind, names in requested.items()}
    for kind, names in wanted.items():
        for name in sorted(names):
            if name not in study.choices[kind]:
                raise UnknownName(kind, name, study.choices[kind])

    def chosen(trial: Trial) -> bool:
        engine, variant, workload, _ = trial.point.curve
        names = {"engine": engine, "variant": variant, "workload": workload}
        return all(not wanted[kind] or name in wanted[kind] for kind, name in names.items())

    return [part for batch in batches if (part := batch.only(chosen))]
