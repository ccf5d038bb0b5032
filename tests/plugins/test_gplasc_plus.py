import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gplasc.geometry import region
from gplasc.losses import unit_rows
from gplasc.plugins.gplasc_plus import GPLASCPlus, WithPlaces
from gplasc.runs.spec import RunRequest
from gplasc.study.stored import read_results

ROOT = Path(__file__).parents[2]


@pytest.fixture
def with_memory(second_task):
    """A learner at the beginning of its second task that remembers three samples of each class of the first."""

    def enter(resolved):
        learner = second_task(resolved)
        train = learner.stream[0].train
        rows = torch.cat([(train.y == label).nonzero().flatten()[:3] for label in (0, 1)])
        learner.ctx.memory.replace({"x": train.x[rows], "y": train.y[rows]})
        learner.enter(learner.stream[1], past=learner.stream[:1])
        return learner

    return enter


@pytest.mark.parametrize("places", ["class", "trained"])
def test_the_assignment_is_a_cross_entropy_that_knows_how_many_rows_each_class_has(
    tiny, with_memory, terms_of, places
):
    settings = {"gplasc-plus.places": places, "gplasc-plus.lambda_assign": 2.0}
    learner = with_memory(tiny("er", ("gplasc-plus",), **settings))
    own, more, terms = terms_of(learner)
    targets = learner.plugins[0]._places(learner.ctx).detach()
    parts = [*own.values(), *more.values()]
    labels = torch.cat([part.y for part in parts]).tolist()
    rows = unit_rows(torch.cat([part.out.features.detach() for part in parts]))
    assert set(labels) == {0, 1, 2, 3}, "current and past rows"
    losses = []
    for row, label in zip(rows, labels, strict=True):
        scores = [
            math.exp(float(row @ target) / 0.1) * max(labels.count(place), 0.5)
            for place, target in enumerate(targets)
        ]
        losses.append(-math.log(scores[label] / sum(scores)))
    assert terms["assign"].item() == pytest.approx(2.0 * sum(losses) / len(losses), rel=1e-4)


@pytest.mark.parametrize(("epochs", "rows"), [(2, 32), (8, 32), (32, 8), (1000, 1)])
def test_a_past_sample_is_seen_equally_often_however_long_the_training_is(epochs, rows):
    """With a pool of 10,200 samples, 200 of them remembered, in batches of 64; no more rows than the setting allows."""
    plugin = GPLASCPlus(GPLASCPlus.Settings(exposures=204.0))
    ctx = SimpleNamespace(memory=range(200), pool=range(10_200), epochs=epochs)
    assert plugin.minibatch_rows(SimpleNamespace(y=range(64)), ctx) == rows


def test_terms_with_a_weight_of_0_are_left_out(tiny, with_memory, terms_of):
    learner = with_memory(tiny("er", ("gplasc-plus",), **{"gplasc-plus.lambda_position": 0.5}))
    *_, terms = terms_of(learner)
    assert set(terms) == {"position", "distill", "assign"}


def test_a_class_has_its_place_in_the_region_of_its_task_and_keeps_it(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",)))
    plugin, ctx = learner.plugins[0], learner.ctx
    places = plugin._places(ctx)
    vertices = ctx.modules["gplasc"].vertices
    size = region(len(vertices), 2, plugin.settings.margin)
    for task in (0, 1):
        first, second = places[2 * task], places[2 * task + 1]
        assert float(first @ second) == pytest.approx(size.k, abs=1e-5)
        assert torch.allclose((first + second) / 2, size.center_norm * vertices[task], atol=1e-5)
    assert torch.equal(places[4:], vertices[2:]), "the vertices of tasks to come stay free"
    ctx.classes_per_task = [2, 2, 2]
    assert torch.equal(plugin._places(ctx)[:4], places[:4])


def test_tasks_without_a_vertex_of_their_own_share_one(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",)))
    plugin, ctx = learner.plugins[0], learner.ctx
    count = len(ctx.modules["gplasc"].vertices) + 1
    ctx.classes_per_task = [2, 0, *[2] * (count - 1)]  # a task without new classes has no region
    places = plugin._places(ctx)
    assert len(places) == 2 * count
    assert not torch.allclose(places[:2], places[-2:])


def test_no_view_is_added_beside_a_method_that_forwards_its_memory(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",)))
    assert not learner.plugins[0].parts(learner.ctx.pool.take(torch.arange(4)), {}, learner.ctx)
    assert learner.ctx.network.projection is None


def test_the_evidence_is_added_to_the_scores(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",), **{"gplasc-plus.evidence": 0.5}))
    predictor = learner.new_predictor()
    assert isinstance(predictor, WithPlaces)
    features = torch.randn(5, learner.ctx.network.feature_dim, generator=torch.Generator().manual_seed(0))
    places = learner.plugins[0]._places(learner.ctx)
    scores = predictor.predictor(features).detach()
    for i, row in enumerate(unit_rows(features)):
        cosines = [float(row @ place) / 0.1 for place in places[:4]]
        total = math.log(sum(map(math.exp, cosines)))
        wanted = [scores[i, c].item() + 0.5 * (cosines[c] - total) for c in range(4)]
        assert predictor(features)[i].detach().tolist() == pytest.approx(wanted, abs=1e-3)


def test_without_evidence_the_predictor_is_the_methods(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",), **{"gplasc-plus.evidence": 0.0}))
    assert not isinstance(learner.new_predictor(), WithPlaces)


def test_a_state_with_the_number_of_each_place_loads():
    """Predictors were saved with the number of the place of each class, which is its own."""
    predictor = WithPlaces(torch.nn.Linear(3, 2), torch.eye(3)[:2], 1.0)
    other = WithPlaces(torch.nn.Linear(3, 2), torch.zeros(2, 3), 1.0)
    other.load_state_dict(predictor.state_dict() | {"place_of": torch.arange(2)})
    assert torch.equal(other.places, predictor.places)


def test_stored_results_keep_the_settings_of_the_form_they_were_made_with():
    """The numbers that are stored belong to an older assignment; a new run with the same settings has another id."""
    results = read_results(ROOT / "results" / "cifar10.json")
    (row,) = results.groups(stage="test", row="co2l+gplasc-plus")
    assert row.settings["gplasc-plus.assign_temperature"] == 0.05
    assert "gplasc-plus.exposures" not in row.settings
    names = ("stream", "method", "plugins", "buffer", "scale")
    given = {name: value for name, value in row.settings.items() if name not in names and value is not None}
    request = RunRequest(
        "seq-cifar10", "co2l", ("gplasc-plus",), buffer=200, scale="cpu", seed=5, settings=given
    )
    assert request.resolve().config.run_id != row.runs[5]
