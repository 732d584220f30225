"""The model of commits: what it must hold by its meaning, and that a fit finds what made the points."""

import numpy as np
import pytest
from benchlab.stats import CommitModel, fit_commits
from hypothesis import assume, given
from hypothesis import strategies as st

CLIENTS = [1, 2, 4, 8, 16, 32, 64, 128]

models = st.builds(
    CommitModel,
    cores=st.floats(0.5, 64),
    cpu_s=st.floats(2e-5, 2e-2),
    log_waits=st.floats(1, 2),
    contention=st.floats(0, 0.01),
    sharpness=st.floats(1, 20),
)
latencies = st.floats(1e-5, 1e-1)


@given(models, latencies)
def test_throughput_is_below_every_asymptote(model, latency):
    found = model.tps(CLIENTS, latency)
    waits = model.cpu_s + model.log_waits * latency
    assert (found <= np.array(CLIENTS) / waits * (1 + 1e-9)).all()
    assert (found <= model.cores / model.cpu_s * (1 + 1e-9)).all()
    assert (found > 0).all()


@given(models, latencies, st.floats(1.01, 100))
def test_a_slower_log_is_never_faster(model, latency, times):
    assert (model.tps(CLIENTS, latency * times) <= model.tps(CLIENTS, latency) * (1 + 1e-9)).all()


@given(models, latencies)
def test_without_contention_more_clients_are_never_slower(model, latency):
    free = CommitModel(model.cores, model.cpu_s, model.log_waits, 0.0, model.sharpness)
    found = free.tps(CLIENTS, latency)
    assert (np.diff(found) >= -1e-9 * found[1:]).all()


def test_a_client_that_is_alone_takes_its_cpu_time_and_the_logs_latency():
    model = CommitModel(cores=8, cpu_s=1e-3, log_waits=1, contention=0, sharpness=20)
    assert model.tps([1], 1e-3)[0] == pytest.approx(500, rel=0.01)


def test_many_clients_keep_all_cores_busy():
    model = CommitModel(cores=8, cpu_s=1e-3, log_waits=1, contention=0, sharpness=20)
    assert model.tps([512], 1e-3)[0] == pytest.approx(8000, rel=0.01)


def test_enough_clients_make_up_for_a_slow_log():
    model = CommitModel(cores=2, cpu_s=2e-4, log_waits=1.5, contention=0, sharpness=4)
    enough = model.enough_clients(1.3e-3, 1e-4, 0.9, 1024)
    slow, fast = model.tps([enough - 1, enough], 1.3e-3), model.tps([enough - 1, enough], 1e-4)
    assert (slow >= 0.9 * fast).tolist() == [False, True]
    assert model.enough_clients(1.3e-3, 1e-4, 0.9, 2) is None


@given(models, st.floats(1.5e-4, 1e-3))
def test_a_fit_predicts_points_that_it_has_not_seen(model, fast):
    """Every other point of two curves is enough to tell the rest, where nothing is noisy.

    The curve with the fast log must have its knee, where the asymptotes meet, among these points.
    """
    assume(model.cores * (model.cpu_s + model.log_waits * fast) / model.cpu_s <= CLIENTS[-3])
    clients, latency = np.array(CLIENTS * 2), np.repeat([fast, 10 * fast], len(CLIENTS))
    tps = model.tps(clients, latency)
    fitted = fit_commits(clients[::2], latency[::2], tps[::2], model.cores)
    assert fitted.tps(clients[1::2], latency[1::2]) == pytest.approx(tps[1::2], rel=1e-3)


@pytest.mark.parametrize(
    ("clients", "tps"), [([1, 2, 4, 8], [1, 2, 3, 4]), ([1, 2, 4, 8, 16], [1, 2, 3, 4, 0])]
)
def test_what_cannot_be_fitted_is_refused(clients, tps):
    with pytest.raises(ValueError, match="a model of"):
        fit_commits(clients, [1e-3] * len(clients), tps, 2)
