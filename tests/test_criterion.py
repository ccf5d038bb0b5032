import copy
import doctest
import io
import json
import math
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import gplasc.criterion
from gplasc import losses
from gplasc.criterion import GPLASC
from gplasc.geometry import region, simplex_etf


def signed(rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(rows, dim, generator=torch.Generator().manual_seed(seed))


LABELS = torch.tensor([4, 5, 4, 5, 5, 4, 4, 5, 5, 5])


@pytest.mark.parametrize("form", ["hinge", "softplus", "leaky_relu", "squared_hinge"])
@pytest.mark.parametrize("target", ["unit", "scaled"])
def test_the_terms_are_the_pure_functions_times_their_lambda(form, target):
    lambdas = {"lambda_range": 2.0, "lambda_position": 3.0, "lambda_distill": 0.5}
    options = {"margin": 0.15, "num_classes": 2, "range_form": form, "position_target": target, **lambdas}
    criterion = GPLASC(5, 8, **options)
    features, old, teacher = signed(10, 8), signed(4, 8, 1), signed(4, 8, 2)
    terms = criterion(features, LABELS, 2, past_features=old, previous_features=teacher)
    z, size = losses.unit_rows(features), region(5, 2, 0.15)
    vertex = simplex_etf(5, 8, generator=torch.Generator().manual_seed(0))[2].float()
    assert list(terms) == ["range", "position", "distill"]
    assert torch.allclose(terms["range"], 2 * losses.range_loss(z, LABELS, size.k, form=form))
    expected = losses.position_loss(z, LABELS, vertex, target=target, norm=size.center_norm)
    assert torch.allclose(terms["position"], 3 * expected)
    assert torch.allclose(terms["distill"], 0.5 * losses.feature_distillation(old, teacher))


def test_distillations_are_summed_with_their_weights():
    weights = {"mse": 0.5, "ird": 2.0, "projector": 3.0}
    criterion = GPLASC(3, 8, lambda_distill=1.0, num_classes=2, distillation=weights)
    old, teacher = signed(6, 8, 1).requires_grad_(), signed(6, 8, 2)
    terms = criterion(signed(10, 8), LABELS, 1, past_features=old, previous_features=teacher)
    units = map(losses.unit_rows, (old, teacher))
    temperatures = {"student_temperature": 0.2, "teacher_temperature": 0.01}
    expected = (
        0.5 * losses.feature_distillation(old, teacher)
        + 2.0 * losses.relation_distillation(*units, **temperatures)
        + 3.0 * losses.projector_distillation(old, teacher, criterion.projector)
    )
    assert torch.allclose(terms["distill"], expected)
    terms["distill"].backward()
    assert old.grad.abs().sum() > 0
    assert len(list(criterion.parameters())) == 4
    assert all(parameter.grad is not None for parameter in criterion.parameters())
    assert criterion.projector.encoder.out_features == 1


def test_without_distillation_there_is_nothing_to_train_and_the_term_is_zero():
    criterion = GPLASC(3, 8, num_classes=2, distillation="none")
    terms = criterion(signed(10, 8), LABELS, 1, past_features=signed(3, 8), previous_features=signed(3, 8, 1))
    assert terms["distill"].item() == 0
    assert list(criterion.parameters()) == []


def test_a_mixed_batch_is_the_same_as_a_split_one():
    criterion = GPLASC(3, 8, num_classes=2, distillation={"mse": 1.0, "ird": 1.0})
    features, teacher = signed(14, 8), signed(14, 8, 1)
    labels = torch.cat([LABELS, torch.tensor([0, 1, 0, 1])])
    order = torch.randperm(14, generator=torch.Generator().manual_seed(0))
    features, teacher, labels = features[order], teacher[order], labels[order]
    past = labels < 4
    held = {"past_features": features[past], "previous_features": teacher[past]}
    split = criterion(features[~past], labels[~past], 2, **held)
    for previous in (teacher, teacher[past]):
        mixed = criterion(features, labels, 2, past=past, previous_features=previous)
        for name in split:
            assert torch.equal(split[name], mixed[name])
    assert split["distill"] > 0
    alone = criterion(features, labels, 2, past=past)
    assert alone["distill"].item() == 0
    assert torch.equal(alone["range"], split["range"])


def test_class_counts_are_stated_once_remembered_and_may_differ_between_tasks():
    criterion = GPLASC(3, 8, margin=0.1)
    criterion(signed(10, 8), LABELS, 0, num_classes=7)
    criterion(signed(10, 8), LABELS, 0)
    assert criterion.region(0) == region(3, 7, 0.1)
    assert criterion.report()["threshold"] == pytest.approx(region(3, 7, 0.1).k)
    with pytest.raises(ValueError, match="task 0 was said to have 7 classes, now 8"):
        criterion(signed(10, 8), LABELS, 0, num_classes=8)
    unequal = GPLASC(3, 8, margin=0.1, num_classes=[2, 5, 9])
    unequal(signed(10, 8), LABELS, 2)
    assert [unequal.region(task).k for task in range(3)] == [region(3, count, 0.1).k for count in (2, 5, 9)]
    with pytest.raises(ValueError, match="no class count yet"):
        criterion.region(1)


def test_unstated_class_counts_are_the_most_seen_in_a_batch_and_never_fall():
    criterion = GPLASC(3, 8, margin=0.1, lambda_range=1.0, lambda_position=1.0)
    features = signed(10, 8)
    z = losses.unit_rows(features)
    five, three = torch.arange(10) % 5, torch.arange(10) % 3
    for labels, count in ((three, 3), (five, 5), (three, 5)):
        terms = criterion(features, labels, 1)
        assert criterion.region(1) == region(3, count, 0.1)
        found = region(3, count, 0.1)
        assert torch.allclose(terms["range"], losses.range_loss(z, labels, found.k))
        norm = found.center_norm
        expected = losses.position_loss(z, labels, criterion.vertices[1], target="scaled", norm=norm)
        assert torch.allclose(terms["position"], expected)
    criterion.eval()
    criterion(features, torch.arange(10), 1)
    assert criterion.region(1) == region(3, 5, 0.1)
    with pytest.raises(ValueError, match="no class count yet"):
        criterion.region(0)


def test_one_class_has_no_hinge_and_a_center_of_length_one():
    stated, seen = GPLASC(4, 8, num_classes=1), GPLASC(4, 8)
    features, labels = signed(5, 8), torch.full((5,), 3)
    vertex_rows = stated.vertices[2].repeat(5, 1)
    for criterion in (stated, seen):
        assert criterion(features, labels, 2)["range"].item() == 0
        assert criterion(vertex_rows, labels, 2)["position"].item() == pytest.approx(0, abs=1e-10)


def test_one_task_has_neither_hinge_nor_position():
    for criterion in (GPLASC(1, 8, num_classes=2), GPLASC(1, 8)):
        features = signed(10, 8).requires_grad_()
        terms = criterion(features, LABELS, 0)
        assert [term.item() for term in terms.values()] == [0, 0, 0]
        sum(terms.values()).backward()
        assert not features.grad.any()


def test_more_tasks_than_prepared_is_an_error():
    criterion = GPLASC(3, 8, num_classes=2)
    for task in (3, 7, -1):
        with pytest.raises(ValueError, match=r"tasks 0 to 2; call extend\(num_tasks\)"):
            criterion(signed(10, 8), LABELS, task)


def test_few_dimensions_warn_and_use_the_angle_that_there_is():
    with pytest.warns(UserWarning, match="6 points form a simplex only in 5"):
        criterion = GPLASC(6, 3, margin=0.1, num_classes=2)
    assert criterion.region(0) == region(6, 2, 0.1, angle=criterion.angle)
    assert criterion.angle == pytest.approx(math.pi / 2)
    criterion(signed(10, 3), LABELS, 5)
    assert criterion.report()["threshold"] == pytest.approx(1 - 0.9 * 2 * 0.5)


@pytest.mark.parametrize("case", ["no rows", "one row", "one class", "no past rows", "zero features"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("num_classes", [None, 3])
def test_no_batch_gives_nan_or_a_missing_graph(case, dtype, num_classes):
    criterion = GPLASC(4, 8, num_classes=num_classes, distillation={"mse": 1.0, "ird": 1.0, "projector": 1.0})
    rows = {"no rows": 0, "one row": 1}.get(case, 6)
    labels = torch.zeros(rows, dtype=torch.int64) if case == "one class" else torch.arange(rows) % 3
    features = signed(rows, 8).to(dtype) * (0 if case == "zero features" else 1)
    old = signed(0 if case == "no past rows" else 4, 8).to(dtype).requires_grad_()
    features.requires_grad_()
    with warnings.catch_warnings():
        # Zeros are not negative either, which is worth its warning elsewhere.
        warnings.simplefilter("ignore")
        terms = criterion(features, labels, 1, past_features=old, previous_features=old.detach() + 1)
    total = sum(terms.values())
    total.backward()
    assert total.isfinite()
    assert total.dtype == torch.float32
    assert features.grad.isfinite().all()
    assert old.grad.isfinite().all()
    if case == "no rows":
        assert terms["range"].item() == terms["position"].item() == 0
    assert all(math.isfinite(value) for value in measured(criterion).values())


def measured(criterion: GPLASC) -> dict[str, float]:
    return {name: value for name, value in criterion.report().items() if name not in ("acting", "frame")}


def test_the_report_says_which_terms_act():
    """Of the real gradients of a training step: a term that is not added to the loss does not act."""
    torch.manual_seed(0)
    criterion, encoder = GPLASC(3, 8, num_classes=2, lambda_distill=0.0), nn.Linear(6, 8)
    terms = criterion(encoder(signed(10, 6)), LABELS % 2, 0)
    assert criterion.report()["acting"].count("is it added to the loss?") == 2
    terms["position"].backward()
    size = float(terms["position"].detach())
    acting = criterion.report()["acting"]
    assert acting.startswith("yes: range ")
    assert f"position {size:z.3g} (acts)" in acting
    assert "is it added" in acting.partition("position")[0]
    assert acting.endswith("distill 0 (zero)")
    criterion(encoder(signed(10, 6)).detach(), LABELS % 2, 0)
    assert criterion.report()["acting"].startswith("no: ")
    assert "features without gradient" in criterion.report()["acting"]


def test_features_that_stay_without_a_gradient_are_warned_about():
    criterion = GPLASC(3, 8)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(30):
            criterion(signed(10, 8), LABELS, 0)
    assert [(w.filename, "not detached" in str(w.message)) for w in seen] == [(__file__, True)]


def test_batches_of_past_rows_alone_are_warned_about():
    """As with a mask of labels that start at 0 in every task: then nothing but the distillation acts."""
    criterion = GPLASC(3, 8, num_classes=2)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for task in range(2):
            for _ in range(30):
                labels = LABELS % 2
                features = signed(10, 8).requires_grad_()
                criterion(features, labels, task, past=labels < 2 * task, previous_features=features.detach())
    assert [(w.filename, "number labels over all tasks" in str(w.message)) for w in seen] == [
        (__file__, True)
    ]


def test_the_published_criterion_has_the_weights_frame_and_target_of_the_paper():
    criterion = GPLASC.published(3, 8, num_classes=2)
    assert (criterion.lambda_range, criterion.lambda_position, criterion.lambda_distill) == (1.0, 1.0, 1.0)
    assert (criterion.frame, criterion.position_target, criterion.limit_gradient) == (
        "simplex",
        "unit",
        False,
    )
    features = signed(10, 8)
    z, vertex = losses.unit_rows(features), criterion.vertices[0]
    terms = criterion(features, LABELS % 2, 0)
    assert torch.allclose(terms["position"], losses.position_loss(z, LABELS % 2, vertex))
    assert torch.allclose(terms["range"], losses.range_loss(z, LABELS % 2, criterion.region(0).k))
    assert GPLASC.published(3, 8, lambda_range=0.0).lambda_range == 0


def test_the_report_is_measured_not_assumed():
    criterion = GPLASC(3, 8, margin=0.1, num_classes=2)
    assert criterion.report() == {"acting": "no: the criterion was not called yet", "frame": "auto"}
    features = signed(10, 8)
    criterion(features, LABELS, 1)
    z = losses.unit_rows(features)
    k = region(3, 2, 0.1).k
    cosines = [float(z[i] @ z[j]) for i in range(10) for j in range(10) if LABELS[i] != LABELS[j]]
    center = losses.kernels.task_center(z, LABELS)
    report = criterion.report()
    assert (report.pop("frame"), report.pop("acting")[:3]) == ("simplex", "no:")
    assert all(type(value) is float for value in report.values())
    assert report["active_hinge_fraction"] == pytest.approx(sum(c < k for c in cosines) / len(cosines))
    assert report["center_norm"] == pytest.approx(center.norm().item())
    cosine = torch.nn.functional.cosine_similarity(center, criterion.vertices[1], dim=0)
    assert report["center_cosine"] == pytest.approx(cosine.item(), abs=1e-6)
    assert report["threshold"] == pytest.approx(k)
    assert report["target_norm"] == pytest.approx(region(3, 2, 0.1).center_norm)


def test_a_step_reads_nothing_back_from_the_device(monkeypatch):
    criterion = GPLASC(3, 8, distillation={"mse": 1.0, "ird": 1.0, "projector": 1.0})
    features, old = signed(10, 8).requires_grad_(), signed(4, 8, 1)
    criterion(features, LABELS, 1, past_features=old, previous_features=old)

    def forbidden(*_: object) -> None:
        raise AssertionError("the step synchronized the device")

    monkeypatch.setattr(gplasc.criterion.monitor, "_DEVICES_WITHOUT_SYNC", ())
    for name in ("item", "__bool__", "__float__", "__int__", "tolist", "nonzero", "unique", "cpu"):
        monkeypatch.setattr(torch.Tensor, name, forbidden)
    terms = criterion(features, LABELS, 1, past_features=old, previous_features=old)
    sum(terms.values()).backward()


def test_features_that_are_never_negative_are_warned_about_once():
    criterion = GPLASC(5, 64, margin=0.15, num_classes=2, frame="simplex")
    features = torch.relu(signed(10, 64))
    with pytest.warns(UserWarning, match="never negative") as caught:
        terms = criterion(features, LABELS, 0)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2
    assert "range term is identically zero" in messages[0]
    assert "-0.0625" in messages[0]
    assert "cannot reach its vertex" in messages[1]
    assert terms["range"].item() == 0
    for task in range(5):
        criterion(features, LABELS, task)


def test_the_reachable_cosine_that_is_warned_about_is_the_best_one():
    criterion = GPLASC(3, 4, num_classes=2, lambda_range=0.0, frame="simplex")
    vertex = criterion.vertices[0]
    directions = losses.unit_rows(torch.rand(20_000, 4, generator=torch.Generator().manual_seed(0)).pow(3))
    best = (directions @ vertex).max().item()
    with pytest.warns(UserWarning, match="no closer to it than cosine") as caught:
        criterion(torch.relu(signed(10, 4)), LABELS, 0)
    stated = float(str(caught[0].message).split("cosine ")[1].split(";")[0])
    assert stated == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_classes": 20},
        {"range_form": "softplus"},
        {"lambda_range": 0.0},
        {"num_tasks": 1, "lambda_position": 1.0},
    ],
    ids=["k above 0", "softplus always acts", "terms off", "one task"],
)
def test_terms_that_can_act_or_are_off_are_not_warned_about(settings):
    usual = {"num_tasks": 5, "margin": 0.15, "num_classes": 2, "lambda_position": 0.0, "frame": "simplex"}
    GPLASC(feature_dim=64, **usual | settings)(torch.relu(signed(10, 64)), LABELS, 0)


def test_two_tasks_without_a_margin_are_warned_about():
    with pytest.warns(UserWarning, match="choose a margin above 0"):
        GPLASC(2, 8, margin=0.0)
    GPLASC(2, 8, margin=0.1)


def test_the_state_holds_frame_settings_and_class_counts(tmp_path):
    first = GPLASC(4, 8, margin=0.2, lambda_range=3.0, distillation={"projector": 2.0}, seed=7)
    first(signed(10, 8), LABELS, 1, num_classes=6)
    first(signed(10, 8), LABELS, 2)
    torch.save(first.state_dict(), tmp_path / "state.pt")
    second = GPLASC(4, 8, distillation={"projector": 1.0}, seed=1)
    assert not torch.equal(first.vertices, second.vertices)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert torch.equal(first.vertices, second.vertices)
    assert (second.margin, second.lambda_range, second.distillation) == (0.2, 3.0, {"projector": 2.0})
    assert [second.region(task) for task in (1, 2)] == [first.region(task) for task in (1, 2)]
    features, old, teacher = signed(10, 8, 3), signed(4, 8, 4), signed(4, 8, 5)
    for task in (1, 2):
        one = first(features, LABELS, task, past_features=old, previous_features=teacher)
        two = second(features, LABELS, task, past_features=old, previous_features=teacher)
        assert all(torch.equal(one[name], two[name]) for name in one)
    # What was loaded belongs to the second alone.
    second(features, LABELS, 3, num_classes=9)
    assert first.class_counts[3] is None
    # The number of tasks is part of the state, the feature dimension is not.
    other = GPLASC(5, 8, distillation={"projector": 1.0})
    other.load_state_dict(first.state_dict())
    assert other.num_tasks == 4
    assert torch.equal(other(features, LABELS, 1)["range"], first(features, LABELS, 1)["range"])
    with pytest.raises((RuntimeError, ValueError), match=r"size mismatch|feature_dim"):
        GPLASC(4, 9, distillation={"projector": 1.0}).load_state_dict(first.state_dict())


def test_the_state_of_a_spread_frame_keeps_its_angle():
    with pytest.warns(UserWarning, match="spread"):
        first = GPLASC(9, 3, num_classes=2, seed=1)
    with pytest.warns(UserWarning, match="spread"):
        second = GPLASC(9, 3, num_classes=2, seed=2)
    second.load_state_dict(first.state_dict())
    assert second.angle == first.angle
    assert torch.equal(first.vertices, second.vertices)


def test_it_can_be_copied_and_moved():
    criterion = GPLASC(3, 8, num_classes=2, distillation="projector")
    criterion(signed(10, 8).requires_grad_(), LABELS, 0)
    twin = copy.deepcopy(criterion)
    features = signed(10, 8, 3)
    assert torch.equal(twin(features, LABELS, 1)["position"], criterion(features, LABELS, 1)["position"])
    moved = GPLASC(3, 8, num_classes=2, frame="simplex", distillation="projector").to("meta")
    devices = {name: tensor.device.type for name, tensor in moved.state_dict().items()}
    assert devices.pop("_extra_state") == "cpu"
    assert set(devices.values()) == {"meta"}
    moved.monitor._inspected.update(range(3))
    now, old = (torch.empty(rows, 8, device="meta") for rows in (10, 4))
    terms = moved(now, LABELS.to("meta"), 1, past_features=old, previous_features=old)
    assert {term.device.type for term in terms.values()} == {"meta"}
    double = criterion.double()(features.double(), LABELS, 1)
    assert double["position"].dtype == torch.float64


def test_autocast_changes_nothing():
    criterion = GPLASC(3, 8, num_classes=2, distillation={"mse": 1.0, "ird": 1.0, "projector": 1.0})
    features, old, teacher = (signed(rows, 8, seed).bfloat16() for rows, seed in ((10, 0), (4, 1), (4, 2)))
    plain = criterion(features, LABELS, 1, past_features=old, previous_features=teacher)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = criterion(features, LABELS, 1, past_features=old, previous_features=teacher)
    for name in plain:
        assert cast[name].dtype == torch.float32
        assert torch.equal(plain[name], cast[name])


@pytest.mark.parametrize(("num_classes", "tasks"), [(None, (0, 0, 1)), (2, (1, 1))])
def test_it_works_inside_a_compiled_step(num_classes, tasks):
    encoder = nn.Linear(6, 8)
    criterion = GPLASC(3, 8, num_classes=num_classes, frame="simplex", distillation={"mse": 1.0, "ird": 1.0})
    twin, x, old = copy.deepcopy(criterion), signed(10, 6), signed(4, 6, 1)

    def step(criterion: GPLASC, task: int) -> Tensor:
        held = {"past_features": encoder(old), "previous_features": encoder(old).detach() + 1}
        return sum(criterion(encoder(x), LABELS, task, **held).values())

    torch.compiler.reset()
    # The eager backend traces and guards as the others do, without the minute of a C++ compiler.
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    for task in tasks:
        encoder.zero_grad()
        expected = step(twin, task)
        expected.backward()
        gradient = encoder.weight.grad.clone()
        encoder.zero_grad()
        found = compiled(criterion, task)
        found.backward()
        assert found.item() == pytest.approx(expected.item(), abs=1e-6)
        assert torch.allclose(encoder.weight.grad, gradient, atol=1e-6)
        assert measured(criterion) == pytest.approx(measured(twin), abs=1e-6)
        assert "not watched" in criterion.report()["acting"]
    assert torch.equal(criterion.classes_seen, twin.classes_seen)
    torch.compiler.reset()


def test_a_compiled_step_warns_at_the_next_report():
    criterion = GPLASC(3, 64, num_classes=2, lambda_range=0.0, frame="simplex")
    torch.compiler.reset()
    compiled = torch.compile(criterion, backend="eager", fullgraph=True)
    compiled(torch.relu(signed(10, 64)), LABELS, 0)
    with pytest.warns(UserWarning, match="cannot reach its vertex"):
        criterion.report()
    criterion.report()
    torch.compiler.reset()


def train(criterion: GPLASC, labels: Tensor, points: Tensor, steps: int, form=lambda points: points):
    """Train the features themselves, so the terms have to reach what the theory promises; return the report."""
    optimizer = torch.optim.Adam([points.requires_grad_()], lr=0.05)
    for _ in range(steps):
        terms = criterion(form(points), labels, 2)
        terms["supcon"] = 0.1 * losses.supcon(losses.unit_rows(form(points)), labels, temperature=0.5)
        optimizer.zero_grad()
        sum(terms.values()).backward()
        optimizer.step()
    report = criterion.report()
    assert report["center_cosine"] > 0.99
    assert report["center_norm"] == pytest.approx(report["target_norm"], rel=0.02)
    return report


def test_training_moves_a_task_to_its_region():
    criterion = GPLASC(3, 8, margin=0.15, lambda_range=1.0, lambda_position=1.0, num_classes=4)
    labels, points = torch.arange(4).repeat(6), signed(24, 8)
    report = train(criterion, labels, points, 600)
    z = losses.unit_rows(points.detach())
    different = labels[:, None] != labels
    # The theory speaks of collapsed classes; the contrastive loss is what collapses them.
    assert (z @ z.T)[~different].min() > 0.99
    assert (z @ z.T)[different].min().item() == pytest.approx(report["threshold"], abs=0.01)
    assert (z @ z.T)[different].mean().item() == pytest.approx(report["threshold"], abs=0.01)


def test_the_example_of_the_documentation_works_and_is_short():
    examples = doctest.DocTestParser().get_examples(GPLASC.__doc__)
    assert sum(example.source.count("\n") for example in examples) <= 20
    output = io.StringIO()
    test = doctest.DocTestFinder(recurse=False).find(GPLASC, "GPLASC", module=gplasc.criterion, globs={})[0]
    results = doctest.DocTestRunner().run(test, out=output.write)
    assert results.attempted > 10
    assert results.failed == 0, output.getvalue()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frame": "cube"}, "auto, simplex, orthonormal, nonnegative"),
        ({"margin": 1.0}, "margin must be"),
        ({"margin": -0.1}, "margin must be"),
        ({"num_tasks": 0}, "at least one"),
        ({"feature_dim": 0}, "at least one"),
        ({"lambda_range": -1.0}, "lambda_range must be 0 or more"),
        ({"lambda_position": float("nan")}, "lambda_position must be 0 or more"),
        ({"lambda_distill": -0.5}, "lambda_distill must be 0 or more"),
        ({"position_target": "center"}, "unit, scaled"),
        ({"range_form": "cubic"}, "hinge, softplus"),
        ({"distillation": "kd"}, "mse, ird, projector"),
        ({"distillation": {"mse": -1.0}}, "weight of distillation 'mse'"),
        ({"distillation": {"kd": 1.0}}, "mse, ird, projector"),
        ({"num_classes": [2, 2]}, "one number, or 3 numbers"),
        ({"num_classes": 0}, "at least 1"),
        ({"distillation": "projector", "feature_dim": 1, "num_tasks": 2}, "under-complete"),
    ],
)
def test_wrong_settings_are_explained(change, message):
    with pytest.raises(ValueError, match=message) as caught:
        GPLASC(**{"num_tasks": 3, "feature_dim": 8} | change)
    assert "\n" not in str(caught.value)


def held(past=None, previous=None):
    """Old features of these shapes."""
    shapes = {"past_features": past, "previous_features": previous}
    return {name: signed(*shape) for name, shape in shapes.items() if shape}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"features": signed(10, 8).tolist()}, TypeError, r"features must be a torch\.Tensor, got list"),
        (
            {"features": signed(10, 8).numpy()},
            TypeError,
            r"features must be .*, got numpy\.ndarray: convert it",
        ),
        ({"labels": LABELS.tolist()}, TypeError, r"labels must be a torch\.Tensor, got list"),
        ({"past": (LABELS > 4).tolist()}, TypeError, r"past must be a torch\.Tensor, got list"),
        (
            held((3, 8)) | {"previous_features": np.zeros((3, 8))},
            TypeError,
            r"previous_features must be a torch\.Tensor",
        ),
        ({"task": "1"}, TypeError, "task must be an integer, got '1'"),
        ({"num_classes": 2.5}, TypeError, r"num_classes must be an integer, got 2\.5"),
        ({"features": signed(10, 7)}, ValueError, r"features must have shape \(N, 8\)"),
        ({"features": signed(10, 8).long()}, TypeError, "features must be floating point"),
        ({"labels": LABELS[:9]}, ValueError, "labels must have shape"),
        ({"labels": LABELS.float()}, TypeError, "integer labels"),
        ({"task": 1.5}, TypeError, "integer"),
        ({"num_classes": 0}, ValueError, "num_classes must be at least 1"),
        (held((3, 8)), ValueError, "belong together"),
        (held(None, (3, 8)), ValueError, "belong together"),
        (held((3, 8), (2, 8)), ValueError, r"previous_features must have shape \(3, 8\)"),
        (held((3, 7), (3, 7)), ValueError, "past_features must"),
        (held((3, 8), (3, 7)), ValueError, "previous_features must"),
        ({"past": LABELS}, TypeError, "boolean mask"),
        ({"past": LABELS > 4, "past_features": signed(3, 8)}, ValueError, "leave out past_features"),
        ({"past": LABELS > 4} | held(None, (3, 8)), ValueError, r"previous_features .* shape \(6, 8\)"),
    ],
)
def test_wrong_batches_are_explained(change, error, message):
    arguments = {"features": signed(10, 8), "labels": LABELS, "task": 1} | change
    with pytest.raises(error, match=message) as caught:
        GPLASC(3, 8)(**arguments)
    assert "\n" not in str(caught.value)


def test_it_says_what_it_is():
    assert "num_tasks=3, feature_dim=8, margin=0.1" in repr(GPLASC(3, 8))


def test_integers_may_come_from_numpy_and_torch():
    criterion = GPLASC(np.int64(3), torch.tensor(8), num_classes=np.int64(2))
    assert (criterion.num_tasks, criterion.feature_dim, criterion.class_counts) == (3, 8, [2, 2, 2])
    criterion(signed(10, 8), LABELS, torch.tensor(1), num_classes=np.int32(2))
    with pytest.raises(TypeError, match=r"num_tasks must be an integer, got 3\.0"):
        GPLASC(3.0, 8)
    with pytest.raises(TypeError, match="num_tasks must be an integer, got 'a'"):
        GPLASC("a", 8)
    with pytest.raises(TypeError, match="margin must be a number, got 'x'"):
        GPLASC(2, 8, margin="x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("name", ["features", "past_features", "previous_features"])
def test_features_that_are_not_finite_are_an_error_that_names_them(name, value):
    arguments = {"features": signed(10, 8)} | held((4, 8, 1), (4, 8, 2))
    criterion = GPLASC(3, 8, num_classes=2)
    criterion(labels=LABELS, task=1, **arguments)
    arguments[name][2, 3] = value
    with pytest.raises(ValueError, match=f"^{name} must be finite"):
        criterion(labels=LABELS, task=1, **arguments)
    arguments[name][2, 3] = 0.0
    criterion(labels=LABELS, task=1, **arguments)
    arguments[name][2, 3] = value
    unchecked = GPLASC(3, 8, num_classes=2, frame="simplex")
    unchecked.monitor.check = lambda *rows: None
    assert not sum(unchecked(labels=LABELS, task=1, **arguments).values()).isfinite()


def test_other_devices_are_checked_once_in_a_hundred_calls_and_in_the_report(monkeypatch):
    monkeypatch.setattr(gplasc.criterion.monitor, "_DEVICES_WITHOUT_SYNC", ())
    criterion = GPLASC(3, 8, num_classes=2)
    bad = signed(10, 8)
    bad[0, 0] = float("nan")
    good = signed(10, 8).requires_grad_()
    criterion(good, LABELS, 1)
    criterion(bad, LABELS, 1)
    for _ in range(97):
        criterion(good, LABELS, 1)
    with pytest.raises(ValueError, match="features must be finite"):
        criterion(good, LABELS, 1)
    criterion(bad, LABELS, 1)
    with pytest.warns(UserWarning, match="features must be finite"):
        criterion.report()
    criterion.report()


@pytest.mark.parametrize("zero_rows", [10, 6])
def test_collapsed_features_are_warned_about_once_at_the_line_of_the_caller(zero_rows):
    criterion = GPLASC(3, 8, num_classes=2)
    features = signed(10, 8)
    criterion(features, LABELS, 0)
    features[:zero_rows] = 0
    with pytest.warns(UserWarning, match=f"collapsed: {10 * zero_rows}% of the rows are zero") as caught:
        criterion(features, LABELS, 0)
    assert [warning.filename for warning in caught] == [__file__]
    criterion(features, LABELS, 0)


def test_half_of_a_few_rows_is_no_collapse():
    features = signed(4, 8)
    features[:2] = 0
    GPLASC(3, 8, num_classes=2, frame="simplex")(features, LABELS[-4:], 0)
    with pytest.warns(UserWarning, match="collapsed: 100% of the rows are zero"):
        GPLASC(3, 8, num_classes=2, frame="nonnegative")(torch.zeros(4, 8), LABELS[-4:], 0)


def test_a_center_of_zero_is_warned_about():
    features = torch.cat([signed(5, 8), -signed(5, 8)])
    with pytest.warns(UserWarning, match="the center of the task is 0"):
        GPLASC(3, 8, num_classes=2)(features, torch.tensor([4] * 5 + [5] * 5), 0)


def test_classes_with_the_same_direction_in_many_batches_are_warned_about():
    """Rows that differ in their norm only, as after a collapse to one point; a batch of one class says nothing."""
    criterion = GPLASC(3, 8, num_classes=2, frame="simplex")
    same = (torch.arange(1.0, 11.0)[:, None] * signed(1, 8)).requires_grad_()
    for features in (*[same] * 19, signed(10, 8), *[same] * 19):
        criterion(features, LABELS, 0)
        criterion(features, torch.full((10,), 4), 0)
    with pytest.warns(UserWarning, match="same direction in 20 batches in a row") as caught:
        criterion(same, LABELS, 0)
    assert [warning.filename for warning in caught] == [__file__]


def test_a_warning_about_relu_features_points_at_the_caller():
    with pytest.warns(UserWarning, match="never negative") as caught:
        GPLASC(5, 64, num_classes=2, frame="simplex")(torch.relu(signed(10, 64)), LABELS, 0)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(UserWarning, match="choose a margin") as caught:
        GPLASC(2, 8, margin=0.0)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("features", "frame"),
    [
        (signed(10, 64), "simplex"),
        (torch.relu(signed(10, 64)), "nonnegative"),
        (nn.functional.gelu(signed(10, 64)), "nonnegative"),
        (nn.functional.leaky_relu(signed(10, 64), 0.1), "nonnegative"),
        (-torch.relu(signed(10, 64)), "simplex"),
    ],
    ids=["signed", "relu", "gelu", "leaky relu", "negative"],
)
def test_the_frame_is_chosen_by_the_first_batch_and_then_stays(features, frame):
    criterion, expected = (GPLASC(5, 64, num_classes=2, frame=name, seed=3) for name in ("auto", frame))
    assert criterion.frame == "auto"
    terms = criterion(features, LABELS, 1)
    wanted = expected(features, LABELS, 1)
    assert criterion.frame == frame
    assert torch.equal(criterion.vertices, expected.vertices)
    assert all(torch.equal(terms[name], wanted[name]) for name in wanted)
    before = criterion.vertices.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for other in (signed(10, 64, 1), torch.relu(signed(10, 64, 2))):
            criterion(other, LABELS, 1)
    assert criterion.frame == frame
    assert torch.equal(criterion.vertices, before)


def test_a_batch_without_rows_or_of_zeros_chooses_no_frame():
    criterion = GPLASC(5, 64, num_classes=2)
    criterion(signed(0, 64), LABELS[:0], 0)
    with pytest.warns(UserWarning, match="collapsed"):
        criterion(torch.zeros(10, 64), LABELS, 0)
    assert criterion.frame == "auto"


def test_nonnegative_features_reach_their_region():
    """What the simplex cannot do: all terms are zero together, with features that are never negative."""
    criterion = GPLASC(3, 24, margin=0.15, lambda_range=1.0, lambda_position=1.0, num_classes=2)
    report = train(criterion, torch.arange(2).repeat(6), signed(12, 24), 400, torch.abs)
    assert criterion.frame == "nonnegative"
    assert report["threshold"] == pytest.approx(0.15)


@pytest.mark.parametrize("frame", ["simplex", "orthonormal", "nonnegative"])
def test_extending_moves_no_direction(frame):
    criterion = GPLASC(3, 16, margin=0.1, frame=frame, num_classes=2)
    features = signed(10, 16).abs() if frame == "nonnegative" else signed(10, 16)
    criterion(features, LABELS, 2)
    before = criterion.vertices.clone()
    for num_tasks in (4, 4, 7):
        criterion.extend(num_tasks, num_classes=3)
        assert criterion.num_tasks == num_tasks
        assert torch.equal(criterion.vertices[:3], before)
    gram = criterion.vertices @ criterion.vertices.T
    assert torch.allclose(gram[3:], torch.eye(7)[3:], atol=1e-6)
    assert (criterion.vertices.min() >= 0) == (frame == "nonnegative")
    assert criterion.region(6) == region(7, 3, 0.1, angle=math.pi / 2)
    assert criterion.classes_seen.shape == (7,)
    criterion(features, LABELS, 6)
    with pytest.raises(ValueError, match="num_tasks is 7 and can only grow, got 6"):
        criterion.extend(6)
    with pytest.raises(ValueError, match="use features of more dimensions"):
        criterion.extend(18)
    assert criterion.num_tasks == 7
    # A new object takes over the extended state.
    other = GPLASC(2, 16)
    other.load_state_dict(criterion.state_dict())
    assert (other.num_tasks, other.frame, other.class_counts) == (7, frame, [2, 2, 2, 3, 3, 3, 3])
    one, two = (c(features, LABELS, 5) for c in (criterion, other))
    assert all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("frame", ["orthonormal", "nonnegative"])
def test_a_frame_that_grows_acts_from_the_first_task_on(frame):
    criterion = GPLASC(1, 16, margin=0.1, frame=frame, num_classes=2)
    features = signed(10, 16).abs() if frame == "nonnegative" else signed(10, 16)
    terms = criterion(features, LABELS, 0)
    assert terms["position"] > 0
    assert criterion.region(0) == region(2, 2, 0.1, angle=math.pi / 2)
    criterion.extend(2, num_classes=2)
    again = criterion(features, LABELS, 0)
    assert all(torch.equal(terms[name], again[name]) for name in terms)


def test_extending_before_the_first_batch_is_the_same_as_more_tasks_from_the_start():
    criterion = GPLASC(2, 64)
    criterion.extend(5)
    criterion(torch.relu(signed(10, 64)), LABELS, 4)
    assert torch.equal(criterion.vertices, GPLASC(5, 64, frame="nonnegative").vertices)


def test_safetensors_can_store_the_state(tmp_path):
    first = GPLASC(3, 64, margin=0.2, distillation={"mse": 0.5, "projector": 1.0}, seed=4)
    first(torch.relu(signed(10, 64)), LABELS, 1, num_classes=2)
    save_file(first.state_dict(), tmp_path / "state.safetensors")
    second = GPLASC(3, 64, distillation="projector")
    second.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert (second.frame, second.margin, second.class_counts) == ("nonnegative", 0.2, [None, 2, None])
    assert second.distillation == {"mse": 0.5, "projector": 1.0}
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_a_compiled_step_chooses_the_frame_outside_of_the_graph():
    criterion, twin = (GPLASC(3, 64, num_classes=2) for _ in range(2))
    torch.compiler.reset()
    compiled = torch.compile(criterion, backend="eager")
    features = torch.relu(signed(10, 64))
    for _ in range(2):
        found, expected = compiled(features, LABELS, 0), twin(features, LABELS, 0)
        assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert criterion.frame == "nonnegative"
    torch.compiler.reset()


def test_short_features_receive_the_gradient_of_features_of_norm_one():
    """Norms 0.01, 0.5 and 1 have one gradient; longer features have the exact one, and values do not change."""
    limited, exact = (
        GPLASC(3, 8, num_classes=2, limit_gradient=limit, distillation={"mse": 1.0, "ird": 1.0})
        for limit in (True, False)
    )
    unit, old, teacher = (losses.unit_rows(signed(rows, 8, rows)) for rows in (10, 4, 5))
    gradients = {}
    for norm in (0.01, 0.5, 1.0, 3.0):
        for criterion in (limited, exact):
            features, past = ((norm * rows).requires_grad_() for rows in (unit, old))
            terms = criterion(features, LABELS, 1, past_features=past, previous_features=teacher[:4])
            sum(terms.values()).backward()
            gradients[norm, criterion] = (features.grad, past.grad)
            values = [term.item() for term in terms.values()]
            if criterion is limited:
                expected = values
        assert values == pytest.approx(expected, rel=1e-5)
    for part in (0, 1):
        one = gradients[1.0, exact][part]
        for norm in (0.01, 0.5, 1.0):
            assert torch.allclose(gradients[norm, limited][part], one, rtol=1e-4, atol=1e-6)
        assert torch.allclose(gradients[0.01, exact][part], 100 * one, rtol=1e-3, atol=1e-4)
        assert torch.allclose(gradients[3.0, limited][part], gradients[3.0, exact][part], atol=1e-6)


def test_the_assignment_sees_current_and_past_rows_and_is_there_only_if_asked_for():
    criterion = GPLASC(3, 8, lambda_assign=2.0, assign_temperature=0.2, frame="simplex", num_classes=2)
    now, past, before = signed(6, 8), signed(4, 8, seed=1), torch.tensor([0, 1, 3, 0])
    labels = torch.tensor([2, 3, 2, 3, 2, 3])
    terms = criterion(now, labels, 1, past_features=past, past_labels=before)
    rows, every = torch.cat([now, past]), torch.cat([labels, before])
    places = criterion.class_places(2)
    assert torch.equal(places[4:], criterion.vertices[2:]), "the vertex of the task to come stays free"
    wanted = 2 * losses.assignment_loss(rows, every, places, temperature=0.2)
    assert terms["assign"].item() == pytest.approx(wanted.item(), rel=1e-5)
    assert terms["distill"].item() == 0.0
    mask = torch.tensor([False] * 6 + [True] * 4)
    mixed = criterion(rows, every, 1, past=mask)
    assert mixed["assign"].item() == pytest.approx(wanted.item(), rel=1e-5)
    alone = criterion(now, labels, 1)["assign"]
    only = 2 * losses.assignment_loss(now, labels, places, temperature=0.2)
    assert alone.item() == pytest.approx(only.item(), rel=1e-5)
    assert "assign" not in GPLASC(3, 8, frame="simplex")(now, labels, 2)


def test_the_assignment_needs_the_numbers_of_classes_and_labels_in_the_order_of_tasks():
    criterion = GPLASC(3, 8, lambda_assign=1.0, frame="simplex")
    with pytest.raises(ValueError, match=r"number of classes of task 0 is not known.*pass num_classes"):
        criterion(signed(6, 8), LABELS[:6], 0)
    with pytest.raises(ValueError, match=r"labels must be in \[0, 4\)"):
        criterion(signed(2, 8), torch.tensor([0, 7]), 0, num_classes=2)


def test_places_are_those_of_the_state_that_is_loaded():
    saved, other = (GPLASC(3, 8, frame="simplex", num_classes=2, seed=seed) for seed in (0, 1))
    assert not torch.equal(saved.class_places(2), other.class_places(2))
    other.load_state_dict(saved.state_dict())
    assert torch.equal(saved.class_places(2), other.class_places(2))


def test_a_state_of_an_older_version_without_the_assignment_loads():
    state = GPLASC(3, 8, frame="simplex", lambda_assign=0.5).state_dict()
    settings = json.loads(bytes(state["_extra_state"].tolist()))
    del settings["lambda_assign"], settings["assign_temperature"]
    state["_extra_state"] = torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)
    other = GPLASC(3, 8, frame="simplex")
    other.load_state_dict(state)
    assert other.lambda_assign == 0.0
