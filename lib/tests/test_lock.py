"""The two ways to set up bring the same packages, and no file says where they come from."""

import re
import tomllib

import pytest
from conftest import ROOT, repository_files
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

#: conda-forge's name → PyPI's, where they differ.
CONDA_NAMES = {"python-duckdb": "duckdb"}

#: In environment.yml, but no packages that the lock could have.
NOT_LOCKED = {"python", "pip"}

#: In parts, so that this file does not have them either.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("conda", "anaconda", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("registry", "npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
    )
]


@pytest.fixture(scope="module")
def locked() -> dict[str, set[str]]:
    return versions("requirements.lock")


def versions(lock: str) -> dict[str, set[str]]:
    """Name → versions; several where Python or platform decide."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / lock).read_text().splitlines():
        if match := re.match(r"([A-Za-z0-9][\w.-]*)(?:\[.*\])?==([^ ;\\]+)", line):
            found.setdefault(canonicalize_name(match[1]), set()).add(match[2])
    return found


@pytest.fixture(scope="module")
def conda() -> dict[str, str]:
    """PyPI's name → version, as environment.yml pins them."""
    dependencies = YAML(typ="safe").load(ROOT / "environment.yml")["dependencies"]
    pinned = [one for one in dependencies if isinstance(one, str)]
    for nested in dependencies:
        if isinstance(nested, dict):
            # an option, such as --editable for benchlab itself, is no package
            pinned += [one for one in nested["pip"] if not one.startswith("-")]
    found = {}
    for one in pinned:
        name, _, version = one.replace("==", "=").partition("=")
        name = canonicalize_name(re.sub(r"\[.*\]", "", name.strip()))
        found[canonicalize_name(CONDA_NAMES.get(name, name))] = version.strip()
    return {name: version for name, version in found.items() if name not in NOT_LOCKED}


@pytest.fixture(scope="module")
def required() -> set[str]:
    """What the package itself depends on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {canonicalize_name(Requirement(one).name) for one in project["dependencies"]}


def test_conda_users_get_the_locked_versions(conda, locked):
    assert conda
    differing = {
        name: f"{version or 'any'} in environment.yml, {sorted(locked.get(name, []))} locked"
        for name, version in conda.items()
        if version not in locked.get(name, ())
    }
    assert not differing


def test_every_dependency_is_in_both(conda, locked, required):
    assert required - locked.keys() == set()
    assert required - conda.keys() == set()


def test_hosts_of_tpcc_get_the_locked_versions(locked):
    for_hosts = versions("requirements-tpcc.lock")
    group = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["tpcc"]
    assert {canonicalize_name(Requirement(one).name) for one in group} <= for_hosts.keys()
    assert {name: locked.get(name) for name in for_hosts} == for_hosts


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-tpcc.lock"])
def test_every_locked_package_has_hashes(lock):
    text = (ROOT / lock).read_text()
    for entry in re.split(r"\n(?=\S)", text.strip()):
        assert entry.startswith("#") or "--hash=sha256:" in entry, entry.splitlines()[0]


def test_no_file_names_a_registry():
    """Where packages come from is the user's own configuration of pip, apt and the like."""
    files = repository_files()
    assert len(files) > 10
    hosts = re.compile("|".join(map(re.escape, REGISTRIES)).encode(), re.IGNORECASE)
    found = {
        str(path.relative_to(ROOT)): match[0].decode()
        for path in files
        if (match := hosts.search(path.read_bytes()))
    }
    assert not found
