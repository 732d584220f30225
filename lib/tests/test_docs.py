"""The documents name what exists, and everything that exists is named."""

import re
from collections import Counter
from pathlib import Path

import pytest
from benchlab import cli, repo, study
from benchlab.claims import published
from benchlab.gate import checks, steady
from benchlab.report.verdicts import VERDICTS
from benchlab.store import open_any, schema
from benchlab.study import PROFILES
from benchlab.study.claims import Audit
from typer.main import get_command

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.M))
COMMANDS = set(get_command(cli._typer).commands)


def test_every_make_target_that_is_named_exists():
    named = set(re.findall(r"\bmake ([a-z-]+)\b(?! is| it)", README + CONTRIBUTING))
    assert named - {"sure"} <= TARGETS


@pytest.mark.parametrize("target", sorted({"paper", "test", "lab", "clean", "teardown"}))
def test_the_targets_users_need_are_there_and_named(target):
    assert target in TARGETS
    assert f"make {target}" in README + CONTRIBUTING


def test_every_command_that_is_named_exists():
    named = set(re.findall(r"`benchlab ([a-z]+)", README + CONTRIBUTING))
    assert named - {"--help"} <= COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS - {"published", "reference"}))
def test_every_command_is_in_the_readme(command):
    assert f"`{command}`" in README


def test_every_profile_and_article_is_in_the_readme():
    for name in (*PROFILES, *published.articles(repo.Repo(ROOT))["study"]):
        assert f"`{name}`" in README


def test_every_path_that_is_named_exists():
    named = re.findall(r"`((?:lib|ansible|notebooks|paper|data)/[\w./-]+)`", README + CONTRIBUTING)
    made = ("paper/build", "data/store", "data/raw")
    generic = ("/<", "…")
    for path in named:
        if path.startswith(made) or any(mark in path for mark in generic):
            continue
        assert (ROOT / path).exists(), path


def test_every_table_is_in_the_first_notebook():
    text = (ROOT / "notebooks/explore.ipynb").read_text()
    tables = (*schema.RUN_TABLES, *schema.STUDY_TABLES)
    assert [one for one in tables if f"`{one}`" not in text] == []


def test_the_readme_has_the_bounds_of_the_gate():
    for bound in (steady.TOLERANCE, checks.MOST_FOREIGN, checks.LEAST_CACHED):
        assert f"{100 * bound:.0f} %" in README
    assert f"({checks.MOST_SHORT_SD} standard deviations)" in README


def test_the_readme_counts_the_verdicts_of_the_reference():
    checkout = repo.find()
    with open_any(checkout.reference) as reference:
        stored = reference.sql("SELECT study, claim, verdict FROM verdict").rows()
    found: dict = {}
    for name, claim_id, verdict in stored:
        claims = {one.id: one for one in study.load(checkout, name).claims}
        is_audit = isinstance(claims[claim_id].decided_by, Audit)
        found.setdefault(name, Counter())[is_audit, verdict] += 1
    rows = [
        (name, *(counts[False, verdict] for verdict in VERDICTS), counts[True, "not reproduced"])
        for name, counts in sorted(found.items())
    ]
    in_readme = re.findall(r"^\| `(\w+)`" + r" \| (\d+)" * 6 + r" of \d+ \|$", README, re.M)
    assert [(name, *map(int, counts)) for name, *counts in in_readme] == rows


def test_every_picture_of_the_readme_is_there():
    for path in re.findall(r"!\[[^]]*\]\(([^)]+)\)", README):
        assert (ROOT / path).is_file(), path
