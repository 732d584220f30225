"""The Makefile is whole, and what CI runs is what the documents tell a user to run."""

import re
import subprocess

import pytest
from conftest import ROOT
from ruamel.yaml import YAML

MAKEFILE = (ROOT / "Makefile").read_text()
README = (ROOT / "README.md").read_text()
WORKFLOW = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")

#: Target → what `make help` says of it.
TARGETS = dict(re.findall(r"^([a-z-]+):.*?## (.+)$", MAKEFILE, re.M))

STEPS = [(name, step) for name, job in WORKFLOW["jobs"].items() for step in job["steps"]]

#: What a container needs before there is a checkout to run something of.
_CONTAINER = ("apt-get update && ", "git config --global --add safe.directory ")


def test_every_phony_target_has_a_rule_and_every_rule_a_line_of_help():
    (phony,) = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.M)
    rules = re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.M)
    assert sorted(phony.split()) == sorted(rules)
    assert set(rules) == set(TARGETS)


def test_help_lists_every_target():
    shown = subprocess.run(
        ["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target, what in TARGETS.items():
        assert re.search(rf"^make {target} +{re.escape(what)}$", shown, re.M), target


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_understood_by_make(target):
    subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, check=True)


def test_ci_runs_on_every_push():
    assert "push" in WORKFLOW["on"]


def test_ci_runs_lint_the_tests_without_root_and_everything():
    commands = {step.get("run") for _, step in STEPS}
    assert {"make lint", "make test-without-root", "sudo make test"} <= commands
    # another CI starts at this script
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "make test"


@pytest.mark.parametrize(
    ("job", "command"), [(job, step["run"]) for job, step in STEPS if "run" in step]
)
def test_every_command_of_ci_is_the_makefiles_or_the_readmes(job, command):
    if match := re.fullmatch(r"(?:sudo )?make ([a-z-]+)", command):
        assert match[1] in TARGETS
    elif command.startswith(_CONTAINER):
        assert "container" in WORKFLOW["jobs"][job]
    elif match := re.fullmatch(r"\.venv/bin/python -m pytest (\S+)", command):
        assert (ROOT / match[1]).is_file()
    else:
        assert command in README.splitlines()


def test_actions_are_the_official_ones_of_one_version():
    used = [step["uses"] for _, step in STEPS if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@(v\d+|[0-9a-f]{40})", one) for one in used)
