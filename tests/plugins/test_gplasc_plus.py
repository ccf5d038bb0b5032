import math

import pytest
import torch

from gplasc.geometry import region
from gplasc.losses import unit_rows
from gplasc.plugins.gplasc_plus import _PlaceEvidence


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


@pytest.mark.parametrize("places", ["class", "task", "trained"])
def test_the_assignment_is_a_cross_entropy_in_which_every_place_has_the_same_weight(
    tiny, with_memory, terms_of, places
):
    settings = {"gplasc-plus.places": places, "gplasc-plus.lambda_assign": 2.0}
    learner = with_memory(tiny("er", ("gplasc-plus",), **settings))
    own, more, terms = terms_of(learner)
    plugin, ctx = learner.plugins[0], learner.ctx
    targets, place_of = plugin._places(ctx)
    means: dict[int, list[float]] = {}
    for part in (*own.values(), *more.values()):
        for row, label in zip(unit_rows(part.out.features.detach()), part.y.tolist(), strict=True):
            scores = [math.exp(float(row @ target) / 0.05) for target in targets.detach()]
            place = int(place_of[label])
            means.setdefault(place, []).append(-math.log(scores[place] / sum(scores)))
    assert len(means) == (2 if places == "task" else 4), "current and past rows"
    wanted = 2.0 * sum(sum(rows) / len(rows) for rows in means.values()) / len(means)
    assert terms["assign"].item() == pytest.approx(wanted, rel=1e-4)


def test_terms_with_a_weight_of_0_are_left_out(tiny, with_memory, terms_of):
    learner = with_memory(tiny("er", ("gplasc-plus",), **{"gplasc-plus.lambda_position": 0.5}))
    *_, terms = terms_of(learner)
    assert set(terms) == {"position", "distill", "assign"}


def test_a_class_has_its_place_in_the_region_of_its_task_and_keeps_it(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",)))
    plugin, ctx = learner.plugins[0], learner.ctx
    places, place_of = plugin._places(ctx)
    vertices = ctx.modules["gplasc"].vertices
    size = region(len(vertices), 2, plugin.settings.margin)
    for task in (0, 1):
        first, second = places[2 * task], places[2 * task + 1]
        assert float(first @ second) == pytest.approx(size.k, abs=1e-5)
        assert torch.allclose((first + second) / 2, size.center_norm * vertices[task], atol=1e-5)
    assert place_of.tolist() == [0, 1, 2, 3]
    assert torch.equal(places[4:], vertices[2:]), "the vertices of tasks to come stay free"
    ctx.classes_per_task = [2, 2, 2]
    assert torch.equal(plugin._places(ctx)[0][:4], places[:4])


def test_tasks_without_a_vertex_of_their_own_share_one(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",)))
    plugin, ctx = learner.plugins[0], learner.ctx
    count = len(ctx.modules["gplasc"].vertices) + 1
    ctx.classes_per_task = [2, 0, *[2] * (count - 1)]  # a task without new classes has no region
    places, place_of = plugin._places(ctx)
    assert len(places) == len(place_of) == 2 * count
    assert not torch.allclose(places[:2], places[-2:])


def test_no_view_is_added_beside_a_method_that_forwards_its_memory(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",)))
    assert not learner.plugins[0].parts(learner.ctx.pool.take(torch.arange(4)), {}, learner.ctx)
    assert learner.ctx.network.projection is None


def test_the_evidence_is_added_to_the_scores(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",), **{"gplasc-plus.evidence": 0.5}))
    predictor = learner.new_predictor()
    assert isinstance(predictor, _PlaceEvidence)
    features = torch.randn(5, learner.ctx.network.feature_dim, generator=torch.Generator().manual_seed(0))
    places, _ = learner.plugins[0]._places(learner.ctx)
    scores = predictor.predictor(features).detach()
    for i, row in enumerate(unit_rows(features)):
        cosines = [float(row @ place) / 0.05 for place in places[:4]]
        total = math.log(sum(map(math.exp, cosines)))
        wanted = [scores[i, c].item() + 0.5 * (cosines[c] - total) for c in range(4)]
        assert predictor(features)[i].detach().tolist() == pytest.approx(wanted, abs=1e-3)


def test_without_evidence_the_predictor_is_the_methods(tiny, with_memory):
    learner = with_memory(tiny("er", ("gplasc-plus",), **{"gplasc-plus.evidence": 0.0}))
    assert not isinstance(learner.new_predictor(), _PlaceEvidence)
