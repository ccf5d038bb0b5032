"""Planning for a device: passes are counted right, and the measured runs are returned."""

import pytest

from gplasc.errors import UserError
from gplasc.planning import find_device, plan_run, spread_over
from gplasc.runs.spec import resolve


def test_the_passes_of_co2l_are_those_of_the_protocol():
    plan = plan_run(resolve("seq-cifar10", "co2l", buffer=200, scale="paper"))
    first, later = 500 * 10_000, 4 * 100 * 10_200  # samples visited
    assert plan.images == first + later
    views = 2
    assert plan.training == pytest.approx(
        views * 3 * first + views * (3 + 1) * later
    )  # a teacher after the first
    assert plan.operations == pytest.approx(2 * 0.556e9, rel=0.01)  # multiply-adds of ResNet-18 at 32 px


def test_a_measured_run_is_planned_with_the_time_it_took():
    device = find_device("rtx3090")
    assert device.runs[0].seconds == 3476
    for run in device.runs[:2]:
        plan = plan_run(resolve(run.stream, run.method, run.plugins, buffer=run.buffer, scale="paper"))
        assert plan.seconds("rtx3090") * plan.training / plan.passes == pytest.approx(run.seconds)


def test_an_unknown_device_is_refused_with_those_that_are_known():
    with pytest.raises(UserError, match="did you mean 'rtx3090'"):
        find_device("rtx3080")


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_runs_spread_between_the_bounds_of_any_schedule(devices):
    seconds = [7.0, 5.0, 4.0, 4.0, 3.0, 2.0]
    end = spread_over(seconds, devices)
    least = max(max(seconds), sum(seconds) / devices)
    assert least <= end <= least * 4 / 3
