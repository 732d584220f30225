"""Study files: what stands in them is resolved or refused, with file and line."""

import re
import subprocess
import sys

import pytest
from benchlab import study, target
from benchlab.claims import published
from benchlab.drivers.sysbench import driver as sysbench
from benchlab.engines import ENGINES, Endpoint
from benchlab.errors import StudyError, UnknownName
from benchlab.repo import Repo
from benchlab.study import EngineSpec, OfMemory
from benchlab.workloads import tables_of
from benchlab.workloads.spec_tree.dataset import SpecTree
from conftest import ROOT, STUDY, edited_study
from hypothesis import given
from hypothesis import strategies as st

MIB = 1 << 20

# what is replaced by what, and what the message must name; the line is that of the replacement
MISTAKES = {
    "wrong type": ("warmup_s: 1\n", "warmup_s: soon\n", "profiles.smoke.warmup_s", "integer"),
    "wrong size": ("memory: 1GiB", "memory: 1XiB", "profiles.smoke.envelope.memory"),
    "not positive": ("concurrency: [1, 4]", "concurrency: [0, 4]", "greater than 0"),
    "unknown key": ("trials: 1", "trails: 1", "'trails'", "trials, warmup_s"),
    "unknown key within a value": ("{of_memory: 0.25}", "{of_memry: 0.25}", "'of_memry'"),
    "unknown key within a scaled size": (
        "{of_memory: 0.25}",
        "{article: 128MiB, hear: 35MiB}",
        "'hear'; choose one of: article, here",
    ),
    "half of a scaled size": ("{of_memory: 0.25}", "{article: 128MiB}", "shared_buffers.here"),
    "wrong scaled size": ("{of_memory: 0.25}", "{article: 1XiB, here: 1}", "buffers.article"),
    "key twice": ("start: prewarm", "start: prewarm\n    start: cold", "duplicate key"),
    "unknown profile": ("  smoke:", "  smoek:", "'smoke', 'quick', 'standard' or 'paper'"),
    "unknown start": ("start: prewarm", "start: warm", "'cold' or 'prewarm'"),
    "unknown engine in the matrix": (
        "engines: [tidb]",
        "engines: [tdib]",
        "engine 'tdib'",
        "oceanbase, postgres, tidb",
    ),
    "unknown variant in the matrix": (
        "variants: [default, tuned]",
        "variants: [default, tunde]",
        "variant 'tunde'",
        "default, more_clients, no_full_pages, tuned",
    ),
    "unknown workload in the matrix": (
        "workloads: [oltp_write_only, oltp_insert, oltp_point_select]",
        "workloads: [oltp_read_only]",
        "workload 'oltp_read_only'",
    ),
    "unknown envelope in the matrix": (
        "envelope: as_sold",
        "envelope: sold",
        "as_sold, faster_disk, main",
    ),
    "length of a block where no run goes on until it is steady": (
        "profiles: [standard], concurrency: &ends [16, 256], warmup_s: 120",
        "profiles: [quick], concurrency: &ends [16, 256], longest_s: 120",
        "longest_s: profile quick has none",
    ),
    "length of a block below the shortest run": (
        "profiles: [standard], concurrency: &ends [16, 256], warmup_s: 120",
        "profiles: [standard], concurrency: &ends [16, 256], longest_s: 1",
        "longest_s: is less than measure_s of profile standard",
    ),
    "unknown variant to load": (
        "load_variant: tuned",
        "load_variant: tuend",
        "default, more_clients, no_full_pages, tuned",
    ),
    "engine of an override": (
        "      postgres:\n        init: {wal_segsize_mb: 1}",
        "      postgrs:\n        init: {wal_segsize_mb: 1}",
        "engine 'postgrs'",
    ),
    "engine of an intervention": (
        "- &reads {engine: postgres, variant: default,",
        "- &reads {engine: postgrs, variant: default,",
        "interventions.0.engine: unknown engine 'postgrs'",
    ),
    "workload of an intervention": (
        "variant: default, workload: oltp_point_select, concurrency: 16,",
        "variant: default, workload: oltp_read_only, concurrency: 16,",
        "interventions.0.workload: unknown workload 'oltp_read_only'",
    ),
    "resource of an intervention": (
        "{resources: [cpu, write_bandwidth], block_s: 3, blocks: 1}",
        "{resources: [cpu, memory], block_s: 3, blocks: 1}",
        "profiles.smoke.intervention.resources.1",
        "'write_bandwidth', 'write_iops'",
    ),
    "resource of an intervention twice": (
        "{resources: [cpu, write_bandwidth], block_s: 3, blocks: 1}",
        "{resources: [cpu, cpu], block_s: 3, blocks: 1}",
        "a resource is there twice",
    ),
    "factor of an intervention": (
        "{resources: [cpu, write_bandwidth], block_s: 3, blocks: 1}",
        "{resources: [cpu], factor: 1.2, block_s: 3, blocks: 1}",
        "profiles.smoke.intervention.factor",
        "less than 1",
    ),
    "blocks of an intervention with no second that counts": (
        "{resources: [cpu, write_bandwidth], block_s: 3, blocks: 1}",
        "{resources: [cpu], block_s: 2, blocks: 1}",
        "profiles.smoke.intervention.block_s",
    ),
    "engine of a claim": (
        "of: {engine: tidb, variant: default, workload: oltp_write_only}",
        "of: {engine: tdib, variant: default, workload: oltp_write_only}",
        "claims.0.decided_by.of.engine: unknown engine 'tdib'",
    ),
    "metric of a claim": (
        "metric: wal_bytes_per_checkpoint}",
        "metric: wal_bytes_a_checkpoint}",
        "decided_by.of.metric: unknown metric 'wal_bytes_a_checkpoint'",
        "wal_bytes_per_transaction",
    ),
    "resource of a claim": (
        "by: [disk write bandwidth]",
        "by: [disk bandwidth]",
        "decided_by.by: unknown resource 'disk bandwidth'",
        "disk write IOPS",
    ),
    "variant of a claim": (
        "over: {engine: postgres, variant: default, workload: oltp_write_only}",
        "over: {engine: postgres, variant: defualt, workload: oltp_write_only}",
        "claims.0.decided_by.over.variant: unknown variant 'defualt'",
        "default, more_clients, no_full_pages, tuned",
    ),
    "workload of a claim": (
        "over: {engine: postgres, variant: default, workload: oltp_write_only}",
        "over: {engine: postgres, variant: default, workload: oltp_wirte_only}",
        "claims.0.decided_by.over.workload: unknown workload 'oltp_wirte_only'",
    ),
    "port of the server": (
        "rand-type: uniform",
        "pgsql-port: 5432",
        "workloads.oltp_write_only.options.pgsql-port: follows from the engine's server",
    ),
    "number of clients": ("rand-type: uniform", "threads: 1", "the profile's concurrency"),
    "an option as sysbench takes it, too": (
        "rand-type: uniform",
        "table_size: 5",
        "options.table_size: follows from the profile's dataset",
    ),
    "an option by its older name": (
        "rand-type: uniform",
        "max-time: 5",
        "options.max-time: follows from the profile's warmup_s and measure_s",
    ),
    "unknown driver": (
        "driver: sysbench",
        "driver: sysbnch",
        "workloads.oltp_write_only.driver: unknown driver of sysbench_oltp 'sysbnch'",
    ),
    "driver that cannot use the dataset": (
        "driver: sysbench",
        "driver: pgbench",
        "unknown driver of sysbench_oltp 'pgbench'; choose one of: sysbench",
    ),
    "several scripts of sysbench": (
        "script: oltp_write_only",
        "scripts: {oltp_write_only: 1, oltp_insert: 2}",
        "sysbench runs one script at a time",
    ),
    "no script": ("script: oltp_write_only", "scripts: {}", "one `script`, or `scripts`"),
    "unknown kind of dataset": (
        "dataset: {kind: sysbench_oltp, tables: 2",
        "dataset: {kind: oltp, tables: 2",
        "profiles.smoke.dataset.kind: unknown kind of dataset 'oltp'",
        "pgbench, spec_tree, sysbench_oltp",
    ),
    "dataset without a kind": (
        "dataset: {kind: sysbench_oltp, tables: 2",
        "dataset: {tables: 2",
        "profiles.smoke.dataset.kind: is missing; choose one of: pgbench, spec_tree",
    ),
    "unknown key of a dataset": (
        "tables: 2, rows_per_table: 10000}",
        "tables: 2, rows_a_table: 10000}",
        "profiles.smoke.dataset.rows_a_table: unknown key 'rows_a_table'",
        "rows_per_table, tables",
    ),
    "wrong type in a dataset": (
        "tables: 2, rows_per_table: 10000}",
        "tables: 2, rows_per_table: many}",
        "profiles.smoke.dataset.rows_per_table",
        "integer",
    ),
    "name of the study": (
        "study: postgres_vs_tidb",
        "study: 2024_aurora",
        "study: '2024_aurora' is no name",
    ),
    "name of a workload": (
        "  oltp_write_only:\n    driver",
        "  oltp.write_only:\n    driver",
        "workloads.oltp.write_only: 'oltp.write_only' is no name; it must be a letter, then letters",
    ),
    "bad indentation": ("    label: TiDB", "\tlabel: TiDB", "cannot start any token"),
    "undefined alias": ("overrides: *scaled", "overrides: *sacled", "undefined alias 'sacled'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_file_and_line(checkout, mistake):
    right, wrong, *named = MISTAKES[mistake]
    path = checkout.studies / f"{STUDY}.yml"
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    changed = wrong.count("\n") if mistake == "key twice" else 0
    line = text[: text.index(right)].count("\n") + 1 + changed
    with pytest.raises(StudyError) as error:
        study.load(checkout, STUDY)
    message = str(error.value)
    assert message.startswith(f"{path}:{line}: ")
    assert "\n" not in message
    for part in named:
        assert part in message


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"\xff\xfe\x00", b"\x00", b"study: a: b"])
def test_a_file_that_is_no_study_at_all_is_one_line(checkout, content):
    (checkout.studies / "odd.yml").write_bytes(content)
    with pytest.raises(StudyError, match=r"odd\.yml:1: ") as error:
        study.load(checkout, "odd")
    assert "\n" not in str(error.value)


def test_a_copied_study_must_take_its_own_name(checkout):
    text = (checkout.studies / f"{STUDY}.yml").read_text()
    (checkout.studies / "mine.yml").write_text(text)
    with pytest.raises(StudyError, match="'mine'"):
        study.load(checkout, "mine")
    (checkout.studies / "mine.yml").write_text(
        re.sub("^study: .*", "study: mine", text, flags=re.M)
    )
    assert study.load(checkout, "mine").study == "mine"


CLAIMS_ONLY = """\
study: mine
article: {title: A, subject: b, file: c}
claims:
  - id: one
    where: summary
    claim: A leads.
    kind: order
    decided_by:
      test: above
      of: {engine: a, workload: w}
      over: {engine: b, workload: w}
  - id: two
    where: table 1
    claim: Three fit.
    kind: audit
    decided_by:
      test: audit
      query: SELECT 3 AS found
      value: 3
      digits: 0
"""


def test_every_study_has_claims(checkout):
    for name in study.names(checkout):
        spec = study.load(checkout, name)
        assert spec.claims
        assert all(claim.where and claim.claim for claim in spec.claims)


def test_a_study_may_be_claims_only_and_is_not_run_then(checkout):
    (checkout.studies / "mine.yml").write_text(CLAIMS_ONLY)
    spec = study.load(checkout, "mine")
    assert [claim.id for claim in spec.claims] == ["one", "two"]
    # nothing to resolve them against
    assert {name: one.engine for name, one in spec.claims[0].series} == {
        "of": "a",
        "over": "b",
    }
    assert not spec.is_rerun
    assert "mine" in study.names(checkout)
    with pytest.raises(StudyError, match="study mine is not rerun yet: its file has claims only"):
        study.load_rerun(checkout, "mine")


# what is replaced by what, the line of the message, and what it must name
CLAIM_MISTAKES = {
    "id twice": ("id: two", "id: one", 12, "claims.1.id: 'one' is there twice"),
    "id with a space": ("id: two", "id: no two", 12, "claims.1.id: "),
    "unknown key": ("where: table 1", "wheer: table 1", 13, "'wheer'; choose one of: claim, "),
    "unknown kind": ("kind: order", "kind: ordre", 7, "claims.0.kind: ", "'order'"),
    "unknown test": ("test: above", "test: abov", 8, "'abov'", "'above', 'ratio'"),
    "unknown key of a test": ("over:", "ovr:", 11, "decided_by.ovr: ", "'ovr'; choose one of: at"),
    "unknown key of a series": (
        "of: {engine: a, workload: w}",
        "of: {engnie: a, workload: w}",
        10,
        "claims.0.decided_by.of.engnie: ",
        "'engnie'; choose one of: engine, metric, variant, workload",
    ),
    "no number": ("value: 3", "value: many", 19, "claims.1.decided_by.value"),
    "more digits than it states": ("value: 3", "value: 3.5", 19, "more than the 0 decimals"),
    "an audit without a query": ("kind: order", "kind: audit", 7, "is audit with the test above"),
    "a query that is no audit": ("kind: audit", "kind: ratio", 15, "is ratio with the test audit"),
    "half of a rerun": ("claims:", "instance: x\nclaims:", 1, "engines: is missing; a study that"),
}


@pytest.mark.parametrize("mistake", CLAIM_MISTAKES)
def test_a_mistake_in_a_claim_is_named_with_file_and_line(checkout, mistake):
    right, wrong, line, *named = CLAIM_MISTAKES[mistake]
    assert right in CLAIMS_ONLY
    path = checkout.studies / "mine.yml"
    path.write_text(CLAIMS_ONLY.replace(right, wrong, 1))
    with pytest.raises(StudyError) as error:
        study.load(checkout, "mine")
    message = str(error.value)
    assert message.startswith(f"{path}:{line}: ")
    assert "\n" not in message
    for part in named:
        assert part in message


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_whatever_benchlab_passes_to_sysbench_is_no_workloads_option(checkout, name):
    path = checkout.studies / f"{STUDY}.yml"
    text = path.read_text()
    spec = study.load(checkout, STUDY)
    tables = tables_of(spec.profiles["smoke"].dataset).options()
    catalogues = tables_of(SpecTree(operators=1, entities=500, revisions=0)).options()
    engine = ENGINES[name](Endpoint(host="192.0.2.1", port=1, user="a", password="b"))
    words = [
        *sysbench.run(engine, "oltp_insert", tables, threads=1, duration_s=1, seed=1, rate_per_s=1),
        *sysbench.run(engine, "spec_tree", catalogues, threads=1, duration_s=1, seed=1),
        *sysbench.prepare(engine, tables, jobs=4),
        f"--{sysbench.config_file(engine).decode()}",
    ]
    options = {word[2:].partition("=")[0] for word in words if word.startswith("--")}
    assert {"threads", "db-driver"} < options
    assert any(option.endswith("-password") for option in options)
    for option in options:
        path.write_text(text.replace("rand-type: uniform", f"{option}: 1", 1))
        with pytest.raises(StudyError, match=rf"options\.{option}: follows from "):
            study.load(checkout, STUDY)


def test_every_study_that_is_rerun_has_an_instance_type_and_published_numbers_that_fit(checkout):
    assert STUDY in study.names(checkout)
    for name in study.names(checkout):
        spec = study.load_rerun(Repo(ROOT), name)
        assert target.instance_type(checkout, spec.instance).name == spec.instance
        published.check(Repo(ROOT), spec)


@pytest.mark.parametrize("instance", ["nosuch", "", "local"])
def test_an_unknown_instance_type_is_answered_with_those_that_there_are(checkout, instance):
    with pytest.raises(UnknownName, match=r"unknown instance type .*tencent-s5-2xlarge32$"):
        target.instance_type(checkout, instance)


def test_an_unknown_study_is_answered_with_the_choices(checkout):
    with pytest.raises(UnknownName, match=rf"unknown study 'nosuch'; choose one of: .*{STUDY}"):
        study.load(checkout, "nosuch")


@given(st.floats(1e-6, 4), st.integers(256 * MIB, 1 << 42), st.integers(256 * MIB, 1 << 42))
def test_a_share_of_memory_is_whole_mib_and_grows_with_it(share, memory, other):
    size = OfMemory(of_memory=share).resolve(memory)
    assert size % MIB == 0
    assert size == MIB or share * memory - MIB <= size <= share * memory
    smaller, larger = sorted((memory, other))
    assert OfMemory(of_memory=share).resolve(smaller) <= OfMemory(of_memory=share).resolve(larger)


@pytest.mark.parametrize(
    ("article", "here", "differs"),
    [
        ("15", "15.18", False),
        ("15", "13.4", True),
        ("13.4", "13.4", False),
        ("8.0.26", "8.0.4", True),
        ("8.0.26", "9.7.4", True),
        # as many parts as the article gives, none of which is a prefix of another
        ("1", "15.18", True),
        ("15", "unknown", False),
        (None, "15.18", False),
    ],
)
def test_a_version_is_compared_as_exactly_as_the_article_gives_its_own(article, here, differs):
    engine = {"label": "A", "variants": {"default": {}}, "load_variant": "default"}
    spec = EngineSpec.model_validate(engine | {"article_version": article})
    assert spec.differs_from_article(here) == differs


@pytest.mark.parametrize(
    ("name", "table", "version"),
    [
        ("spec_tree", "environment.csv", "{engine},{version}"),
        ("postgres_vs_tidb", "numbers.csv", "{engine}_version,{label},,version,exact,{version},"),
    ],
)
def test_the_articles_versions_are_the_published_ones(checkout, name, table, version):
    published = (checkout.root / "data" / "published" / name / table).read_text()
    given = {
        engine: version.format(engine=engine, label=spec.label, version=spec.article_version)
        for engine, spec in study.load(checkout, name).engines.items()
        if spec.article_version
    }
    assert given.keys() >= {"postgres"}
    for line in given.values():
        assert line in published


def with_pgbench(checkout, **workload: object) -> study.Study:
    """The first study with a workload of pgbench on tables of its own."""
    with edited_study(checkout) as spec:
        spec["workloads"]["mix"] = {
            "driver": "pgbench",
            "writes": True,
            "dataset": {"kind": "pgbench", "scale": 3},
            **workload,
        }
    return study.load(checkout, STUDY)


def test_a_workload_may_have_a_dataset_of_another_kind(checkout):
    spec = with_pgbench(checkout, scripts={"tpcb-like": 1, "select-only": 9})
    dataset = spec.dataset(spec.profiles["quick"], "mix")
    assert (dataset.kind, dataset.scale, dataset.rows) == ("pgbench", 3, 300_033)
    assert spec.workloads["mix"].weights == {"tpcb-like": 1, "select-only": 9}
    assert spec.dataset(spec.profiles["quick"], "oltp_insert").kind == "sysbench_oltp"


@pytest.mark.parametrize(
    ("workload", "named"),
    [
        ({"script": "tpcb_like"}, "workloads.mix.script: unknown script of pgbench 'tpcb_like'"),
        ({"script": "tpcb-like", "options": {"client": 3}}, "the profile's concurrency"),
        ({"script": "tpcb-like", "options": {"M": "prepared"}}, "options.M: is no long name"),
        ({"script": "tpcb-like", "scripts": {"select-only": 1}}, "one `script`, or `scripts`"),
        ({"scripts": {"tpcb-like": 0}}, "greater than 0"),
    ],
)
def test_a_mistake_in_a_workload_of_pgbench_is_named(checkout, workload, named):
    with pytest.raises(StudyError) as error:
        with_pgbench(checkout, **workload)
    assert named in str(error.value)


def test_reading_a_study_loads_neither_polars_nor_duckdb(checkout):
    with_pgbench(checkout, script="select-only")
    code = (
        "import sys; from benchlab import repo, study;"
        f" study.load(repo.find(), {STUDY!r});"
        " print(sorted({'polars', 'duckdb', 'psycopg', 'numpy'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout.root, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr


def test_an_open_loop_needs_a_driver_that_takes_a_rate(checkout):
    block = {"concurrency": 4, "shares": [0.5], "workloads": ["tpcc_unpaced"]}
    block |= {"engines": ["postgres"], "variants": ["default"]}
    with edited_study(checkout, "tpcc") as spec:
        spec["open_loops"] = [block]
    with pytest.raises(StudyError, match="tpcc cannot start transactions at a rate"):
        study.load(checkout, "tpcc")
