"""Read study files; an error names the line that is wrong."""

from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from benchlab.errors import StudyError, UnknownName
from benchlab.repo import Repo
from benchlab.study.model import Study
from benchlab.study.strict import first_error


def names(repo: Repo) -> list[str]:
    """Names of all studies of this checkout, sorted."""
    return sorted(path.stem for path in repo.studies.glob("*.yml"))


def names_with(repo: Repo, selected: Mapping[str, Collection[str]]) -> list[str]:
    """Names of the studies that are rerun and have all selected names, sorted.

    Args:
        repo: the checkout.
        selected: ``engine``, ``variant`` or ``workload`` → names, as in :attr:`Study.choices`.

    Raises:
        UnknownName: no study has one of the names.
        StudyError: no study has all of them.
    """
    specs = [spec for name in names(repo) if (spec := load(repo, name)).is_rerun]
    for kind, requested in selected.items():
        choices = set().union(*(spec.choices[kind] for spec in specs))
        for name in requested:
            if name not in choices:
                raise UnknownName(kind, name, choices)
    found = [
        spec.study
        for spec in specs
        if all(set(requested) <= spec.choices[kind] for kind, requested in selected.items())
    ]
    if not found:
        wanted = ", ".join(name for requested in selected.values() for name in requested)
        raise StudyError(f"no study has all of: {wanted}")
    return found


def load_rerun(repo: Repo, name: str) -> Study:
    """Read a study that is to be run; see :func:`load`.

    Raises:
        StudyError: as for :func:`load`, and also if the study has nothing to run.
    """
    study = load(repo, name)
    if not study.is_rerun:
        raise StudyError(f"study {name} is not rerun yet: its file has claims only")
    return study


def load(repo: Repo, name: str) -> Study:
    """Read ``paper/studies/<name>.yml``.

    Raises:
        UnknownName: no such study.
        StudyError: the file is not a study; the message names file and line.
    """
    path = repo.studies / f"{name}.yml"
    if not path.is_file():
        raise UnknownName("study", name, names(repo))
    study = parse(path)
    if study.study != name:
        # its runs would be stored under the name of another study
        raise StudyError(f"{path}: study: must be {name!r}, as the file is named")
    return study


def parse(path: Path) -> Study:
    """Read one study file; see :func:`load`."""
    try:
        return _parse(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}:1: no YAML: {error}") from error
    except StudyError as error:
        raise StudyError(f"{path}:{error}") from error


@cache  # a command asks for the same study many times
def _parse(text: str) -> Study:
    """Raise StudyError, whose message begins with the line, if the text is not a study."""
    try:
        document = YAML(typ="rt").load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise StudyError(f"{line}: {error.problem}") from error
    except YAMLError as error:
        raise StudyError(f"1: no YAML: {str(error).splitlines()[0]}") from error
    try:
        return Study.model_validate(document)
    except ValidationError as error:
        found = first_error(error)
        loc = _without_tags(document, found.loc)
        dotted = f"{'.'.join(map(str, loc))}: " if loc else ""
        raise StudyError(f"{_line(document, loc)}: {dotted}{found}") from error


def _without_tags(document: Any, loc: tuple) -> tuple:
    """Remove the branches of unions from pydantic's location of an error: they are no keys."""
    node, kept = document, []
    for part in loc[:-1]:
        if isinstance(node, Mapping) and part not in node:
            continue
        kept.append(part)
        node = node[part] if isinstance(node, Mapping | list) else None
    return (*kept, *loc[-1:])


def _line(document: Any, loc: tuple) -> int:
    """Return the line of the deepest part of ``loc`` that the document has, counted from 1."""
    line, node = 1, document
    for part in loc:
        try:
            position = node.lc.item(part) if isinstance(part, int) else node.lc.key(part)
            line, node = position[0] + 1, node[part]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return line
