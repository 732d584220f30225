"""Execution of notebooks, and the analysis notebooks on results with less in them than theirs."""

import io

import nbformat
import pytest
from benchlab import notebooks, study
from benchlab.repo import Repo
from benchlab.report import build
from benchlab.store.export import export
from conftest import MEASURED_PROFILE, ROOT, editable, planned

_ANALYSES = build.analyses(Repo(ROOT))


@pytest.mark.parametrize("name", [one for one in study.names(Repo(ROOT)) if one in _ANALYSES])
def test_a_notebook_reads_one_trial_of_what_quick_runs(checkout, name, tmp_path):
    quick = {trial.point.curve[:3] for trial in planned(checkout, name).trials}
    with editable(ROOT / "data" / "reference") as store:
        store.connection.execute(
            "DELETE FROM run WHERE study <> ? OR trial > 1"
            " OR NOT list_contains(?, [engine, variant, workload])",
            [name, sorted(map(list, quick))],
        )
        assert store.sql("FROM run").height
        export(store, tmp_path / "less", None)
    given = {"source": str(tmp_path / "less"), "profile": MEASURED_PROFILE}
    notebooks.execute_copy(_ANALYSES[name], tmp_path / "executed.ipynb", given, ROOT)


def test_a_kernel_binds_no_port_that_an_engine_may_take(tmp_path):
    code = "from ipykernel.kernelapp import IPKernelApp\nprint(IPKernelApp.instance().transport)"
    template = tmp_path / "template.ipynb"
    cells = [nbformat.v4.new_code_cell(code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), template)
    printed = io.StringIO()
    notebooks.execute_copy(template, tmp_path / "executed.ipynb", {}, tmp_path, printed)
    notebooks.execute_in_place(template)
    assert printed.getvalue() == "ipc\n"
    assert nbformat.read(template, as_version=4).cells[0].outputs[0].text == "ipc\n"
