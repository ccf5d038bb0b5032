import math
import warnings

import pytest
import torch

from gplasc.criterion.terms import region_terms
from gplasc.errors import UserError
from gplasc.runs.spec import RunRequest


def range_and_position(z, labels, regions, task):
    """The two terms of the rows of one task, row by row, with the target that fits signed features."""
    found = regions.region(task)
    gaps = [
        max(0.0, found.k - (z[i] @ z[j]).item())
        for i in range(len(z))
        for j in range(len(z))
        if labels[i] != labels[j]
    ]
    center = torch.stack([z[labels == c].mean(0) for c in labels.unique()]).mean(0)
    position = (center - found.center_norm * regions.vertices[task]).square().sum().item()
    return sum(gaps) / len(gaps), position


def test_terms_are_the_criterions_on_current_and_past_rows(tiny, second_task, terms_of):
    learner = second_task(tiny("co2l", ("gplasc",), **{"model.features": "signed"}))
    own, more, terms = terms_of(learner)
    assert not more, "Co2L forwards all that is needed"
    part = own["batch"]
    y, past = part.y, part.y < 2
    z = torch.nn.functional.normalize(part.out.features, dim=1)
    before = torch.nn.functional.normalize(part.previous.features, dim=1)
    assert terms["distill"].item() == pytest.approx(
        (z - before)[past].square().sum(1).mean().item(), rel=1e-5
    )
    wanted = range_and_position(z[~past], y[~past], learner.ctx.modules["gplasc"], 1)
    assert terms["range"].item() == pytest.approx(wanted[0], rel=1e-4, abs=1e-7)
    assert terms["position"].item() == pytest.approx(wanted[1], rel=1e-4)


def test_a_method_without_contrast_gets_one_on_two_views_of_the_current_samples(tiny, second_task, terms_of):
    learner = second_task(tiny("finetune", ("gplasc",), **{"gplasc.share_views": False}))
    _, more, terms = terms_of(learner)
    assert {name: len(part.y) for name, part in more.items()} == {"views": 2 * len(learner.ctx.pool)}
    assert set(terms) == {"range", "position", "distill", "contrast"}


@pytest.mark.parametrize("method", ["finetune", "er", "derpp"])
def test_views_of_the_method_can_be_shared(method, tiny, second_task, terms_of):
    learner = second_task(tiny(method, ("gplasc",), **{"gplasc.share_views": True}))
    own, more, terms = terms_of(learner)
    assert not more, "no further pass"
    z = torch.cat([part.out.projection[part.y >= 2] for part in own.values()])
    y = torch.cat([part.y[part.y >= 2] for part in own.values()])
    cosines = (z @ z.T / 0.1).tolist()
    loss = 0.0
    for i in range(len(y)):
        others = [j for j in range(len(y)) if j != i]
        total = math.log(sum(math.exp(cosines[i][j]) for j in others))
        positives = [j for j in others if y[j] == y[i]]
        loss -= sum(cosines[i][j] - total for j in positives) / len(positives) / len(y)
    assert terms["contrast"].item() == pytest.approx(loss, rel=1e-4)
    assert {"range", "position"} <= set(terms)


def test_sharing_changes_nothing_beside_a_method_with_views_of_its_own(tiny, second_task, terms_of):
    terms = [
        terms_of(second_task(tiny("co2l", ("gplasc",), **{"gplasc.share_views": shared})))[-1]
        for shared in (False, True)
    ]
    assert {name: term.item() for name, term in terms[0].items()} == {
        name: term.item() for name, term in terms[1].items()
    }


@pytest.mark.parametrize(
    ("name", "default", "other"),
    [("train.optimizer", "sgd", "adamw")],
)
def test_a_younger_setting_is_not_written_at_its_default(tiny, name, default, other):
    """Runs that are older than it keep their ids."""
    given = {"train.lr": 0.1, "train.weight_decay": 0.0, "train.warmup_from": 0.01}  # presets of an optimizer
    plain = tiny("er", ("gplasc",), **given).config
    assert name not in plain.flat()
    assert tiny("er", ("gplasc",), **given, **{name: default}).config.run_id == plain.run_id
    changed = tiny("er", ("gplasc",), **given, **{name: other}).config
    assert changed.flat()[name] == other
    assert changed.run_id != plain.run_id


@pytest.mark.parametrize(("method", "shared"), [("er", True), ("derpp", True), ("co2l", False)])
def test_replay_methods_share_their_views_and_the_setting_is_not_written_if_off(tiny, method, shared):
    """Runs with two further views keep their ids."""
    plain = tiny(method, ("gplasc",)).config
    assert plain.options["gplasc"].get("share_views", False) is shared
    two = tiny(method, ("gplasc",), **{"gplasc.share_views": False}).config
    assert "share_views" not in two.options["gplasc"]
    assert (two.run_id != plain.run_id) is shared


def test_a_reading_that_is_gone_is_an_error_and_its_default_is_not(tiny, new_learner):
    new_learner(tiny("co2l", ("gplasc",), **{"gplasc.space": "feature", "gplasc.range_reduction": "mean"}))
    with pytest.raises(UserError, match=r"space='centered' was removed.*e46d05f"):
        tiny("co2l", ("gplasc",), **{"gplasc.space": "centered"})


def test_a_method_that_never_forwards_its_memory_gets_a_minibatch(tiny, second_task, terms_of):
    learner = second_task(tiny("finetune", ("gplasc",), **{"gplasc.memory_batch": 4}))
    train = learner.stream[0].train
    learner.ctx.memory.replace({"x": train.x[:6], "y": train.y[:6]})
    _, more, terms = terms_of(learner)
    assert len(more["memory"].y) == len(more["memory"].past) == 4
    learner.ctx.network.train()
    assert terms["distill"].item() >= 0.0


@pytest.mark.parametrize(
    "method", ["er", "derpp", "gcr", "gss", "agem", "gem", "fdr", "finetune", "supcon", "co2l"]
)
def test_equal_weights_have_no_distance(tiny, method, second_task, terms_of):
    learner = second_task(tiny(method, ("gplasc",), **{"gplasc.memory_rows": "minibatch"}))
    train = learner.stream[0].train
    if not len(learner.ctx.memory):
        rows = {"x": train.x[:6], "y": train.y[:6]}
        learner.ctx.memory.replace({**rows, "logits": torch.zeros(6, 6), "weight": torch.ones(6)})
    learner.ctx.modules.train()
    _, more, terms = terms_of(learner)
    assert any(len(part.past) for part in more.values())
    assert terms["distill"].item() == pytest.approx(0.0, abs=1e-10)


def test_the_center_is_the_mean_of_class_means_and_this_is_declared(tiny, second_task):
    learner = second_task(tiny("co2l", ("gplasc",), **{"model.features": "signed"}))
    plugin, regions = learner.plugins[0], learner.ctx.modules["gplasc"]
    norm = regions.size(2).center_norm
    weight = {"position": 1.0}
    features = torch.nn.functional.normalize(
        torch.randn(6, 128, generator=torch.Generator().manual_seed(0)), dim=1
    )

    def position(y):
        terms = region_terms(
            features, torch.tensor(y), 1, regions, plugin.monitor, weight, form="hinge", scaled=True
        )
        return terms["position"].item()

    balanced = position([2, 2, 2, 3, 3, 3])
    target = norm * regions.vertices[1]
    of_the_paper = (features.mean(0) - target).square().sum().item()
    assert balanced == pytest.approx(of_the_paper, rel=1e-5)
    unequal = (features[:5].mean(0) / 2 + features[5] / 2 - target).square().sum().item()
    assert position([2, 2, 2, 2, 2, 3]) == pytest.approx(unequal, rel=1e-5)
    assert unequal != pytest.approx(of_the_paper, rel=1e-2)
    assert any("mean of its class means" in text for text in plugin.DEVIATIONS)


def test_rows_of_their_own_can_be_asked_for(tiny, second_task, terms_of):
    learner = second_task(
        tiny("co2l", ("gplasc",), **{"gplasc.memory_rows": "minibatch", "gplasc.memory_batch": 5})
    )
    _, more, _ = terms_of(learner)
    assert {name: len(part.y) for name, part in more.items()} == {"memory": 5}


@pytest.mark.parametrize("tasks", [3, 7, "known", "unknown"])
def test_expected_tasks(tiny, tasks, new_learner):
    learner = new_learner(tiny("co2l", ("gplasc",), **{"gplasc.expected_tasks": tasks}))
    wanted = {"known": 3, "unknown": 100}.get(tasks, tasks)
    assert len(learner.ctx.modules["gplasc"].vertices) == wanted


def test_too_few_regions_are_refused(tiny, new_learner):
    with pytest.raises(UserError, match="expected_tasks is 2, but the stream has 3"):
        new_learner(tiny("co2l", ("gplasc",), **{"gplasc.expected_tasks": 2}))


@pytest.mark.parametrize("form", ["hinge", "softplus", "leaky_relu", "squared_hinge"])
@pytest.mark.parametrize("distillation", ["none", "mse", "ird", "projector", "mse+ird:0.5", "projector+ird"])
def test_every_form_learns(tiny, form, distillation, new_learner):
    learner = new_learner(
        tiny(
            "co2l",
            ("gplasc",),
            **{"gplasc.range_form": form, "gplasc.distillation": distillation, "train.epochs": 1},
        )
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.learn(learner.stream)
    assert len(learner.class_il) == 3


@pytest.mark.parametrize("target", ["unit", "scaled"])
def test_targets(tiny, target, new_learner):
    learner = new_learner(tiny("supcon", ("gplasc",), **{"gplasc.position_target": target}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.learn(learner.stream)
    assert "vertex_cosine" in learner.evaluator.geometry[-1]


@pytest.mark.parametrize(("relu", "frame"), [(True, "nonnegative"), (False, "simplex")])
def test_with_an_encoder_of_the_users_own_the_frame_suits_its_features(
    relu, frame, tiny, new_learner, tmp_path
):
    """Its features are known when the first batch was seen; no term is dead, and a restart has the same frame."""
    file = tmp_path / "mine.py"
    last = ", nn.ReLU()" if relu else ""
    file.write_text(
        "from torch import nn\n\n\ndef mine():\n"
        f"    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8){last})\n"
    )
    resolved = tiny("co2l", ("gplasc",), **{"model.encoder": f"{file}:mine"})
    learner = new_learner(resolved)
    assert learner.ctx.modules["gplasc"].frame == "auto"
    learner.learn_task(learner.stream[0])
    regions = learner.ctx.modules["gplasc"]
    assert regions.frame == frame
    assert float(learner.plugins[0].monitor.seen["target_norm"]) == regions.region(0).center_norm
    again = new_learner(resolved)
    again.load_state_dict(learner.state_dict())
    assert again.ctx.modules["gplasc"].frame == frame
    assert torch.equal(again.ctx.modules["gplasc"].vertices, regions.vertices)


@pytest.mark.parametrize(
    ("stream", "features"),
    [("folder:my", "signed"), ("npz:my.npz", "signed"), ("my-object", "signed"), ("seq-digits", "relu")],
)
@pytest.mark.parametrize("scale", ["paper", "cpu", "smoke"])
def test_features_are_signed_by_default_on_data_of_the_users_own(stream, features, scale):
    spec = RunRequest(stream, "co2l", ("gplasc",), scale=scale).resolve()
    assert spec.config.model.features == features
    given = RunRequest(stream, "co2l", scale=scale, settings={"features": "relu"}).resolve()
    assert given.config.model.features == "relu"


@pytest.mark.parametrize(("features", "target"), [("relu", "unit"), ("signed", "scaled")])
def test_the_target_suits_the_features(tiny, features, target, second_task, terms_of):
    learner = second_task(tiny("co2l", ("gplasc",), **{"model.features": features}))
    terms_of(learner)
    norm = learner.plugins[0].monitor.seen["target_norm"]
    assert norm == (1.0 if target == "unit" else learner.ctx.modules["gplasc"].region(1).center_norm)


def test_frame_depends_on_the_seed_and_is_part_of_the_state(tiny, new_learner):
    frames = [
        new_learner(tiny("co2l", ("gplasc",), seed=seed)).ctx.modules["gplasc"].vertices for seed in (0, 0, 1)
    ]
    assert torch.equal(frames[0], frames[1])
    assert not torch.equal(frames[0], frames[2])
    assert "gplasc.vertices" in new_learner(tiny("co2l", ("gplasc",))).state_dict()["modules"]


@pytest.mark.parametrize("method", ["er", "agem", "derpp"])
def test_the_running_statistics_are_those_of_the_method_alone(tiny, method, second_task):
    def after_one_step(plugins):
        learner = second_task(tiny(method, plugins))
        batch = learner.ctx.pool.take(torch.arange(8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner.step(batch)
        state = learner.ctx.network.state_dict()
        return {name: value for name, value in state.items() if "running" in name}

    alone, together = after_one_step(()), after_one_step(("gplasc",))
    assert alone
    for name, value in alone.items():
        assert torch.equal(value, together[name]), name


def test_the_note_on_relu_features_names_a_setting_of_runs(tiny, second_task):
    learner = second_task(tiny("co2l", ("gplasc",), **{"model.features": "relu"}))
    ctx, (plugin,) = learner.ctx, learner.plugins
    own = learner.method.parts(ctx.pool.take(torch.arange(len(ctx.pool))), ctx)
    own["batch"].out = ctx.forward(own["batch"])
    ctx.modules.train()
    with pytest.warns(UserWarning, match="never negative") as caught:
        plugin.loss(own, {}, ctx)
    assert all("--set model.features=signed" in str(note.message) for note in caught)
    assert not any("frame=" in str(note.message) for note in caught)
