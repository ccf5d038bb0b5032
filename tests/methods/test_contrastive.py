"""The contrastive family against slow, obvious twins."""

import math

import pytest
import torch

from gplasc.memory.importance import importance_scores
from gplasc.methods import cclis
from gplasc.streams import Samples


@pytest.fixture
def learner_in_task(new_learner):
    """A learner that has learned the tasks before and stands at the beginning of this one."""
    return lambda resolved, task: _enter(new_learner(resolved), task)


def _enter(learner, task):
    stream = learner.stream
    for index in range(task):
        learner.enter(stream[index])
        learner.method.end_task(learner.ctx)
        learner.position.task += 1
    if task:
        learner.keep_previous()
        with torch.no_grad():  # so that the previous model differs from the present one
            for parameter in learner.ctx.network.parameters():
                parameter.add_(
                    0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
                )
    learner.enter(stream[task], past=stream[:task])
    return learner


@pytest.fixture
def forward(forwarded):
    """The part of a batch of ten, and the method's terms."""

    def terms(learner):
        generator = torch.Generator().manual_seed(0)
        rows = torch.randperm(len(learner.ctx.pool), generator=generator)[:10]
        parts = forwarded(learner, learner.ctx.pool.take(rows))
        return parts["batch"], learner.method.loss(parts, learner.ctx)

    return terms


def test_co2l_is_the_official_formula(tiny, learner_in_task, forward):
    learner = learner_in_task(tiny("co2l", **{"co2l.temperature": 0.5, "co2l.distill_weight": 0.7}), 1)
    part, terms = forward(learner)
    z, y = part.out.projection.double(), part.y
    rows = len(z)
    start = learner.ctx.task.classes.start
    assert (y < start).any(), "the batch must hold remembered samples"
    total = 0.0
    for i in range(rows):
        if y[i] < start:
            continue
        sims = [math.exp((z[i] @ z[j]).item() / 0.5) for j in range(rows) if j != i]
        positives = [j for j in range(rows) if j != i and y[j] == y[i]]
        for j in positives:
            total -= ((z[i] @ z[j]).item() / 0.5 - math.log(sum(sims))) / len(positives)
    assert terms["supcon"].item() == pytest.approx(0.5 / 0.07 * total / rows, rel=1e-4)

    before = part.previous.projection.double()
    relation = 0.0
    for i in range(rows):
        others = [j for j in range(rows) if j != i]
        p = torch.tensor([(z[i] @ z[j]).item() / 0.2 for j in others]).softmax(0)
        q = torch.tensor([(before[i] @ before[j]).item() / 0.01 for j in others]).softmax(0)
        relation -= (q * p.log()).sum().item()
    assert terms["ird"].item() == pytest.approx(0.7 * relation / rows, rel=1e-3)


def test_the_previous_model_runs_in_the_mode_of_the_method(tiny, learner_in_task):
    for method, mode in (("co2l", "train"), ("cclis", "eval")):
        learner = learner_in_task(tiny(method), 1)
        assert learner.ctx.previous.training == (mode == "train")
        assert not any(p.requires_grad for p in learner.ctx.previous.parameters())


def test_supcon_has_no_distillation_and_every_row_is_an_anchor(tiny, learner_in_task, forward):
    learner = learner_in_task(tiny("supcon"), 1)
    part, terms = forward(learner)
    assert set(terms) == {"supcon"}
    from gplasc.losses import supcon

    whole = supcon(part.out.projection, part.y, temperature=0.5)
    changed = {"temperature": 0.5, "base_temperature": None}
    method = type(learner.method)(learner.method.settings.model_copy(update=changed))
    term = method.loss({"batch": part}, learner.ctx)["supcon"]
    assert term.item() == pytest.approx(whole.item())


def test_cila_weight_follows_the_losses_of_past_tasks(tiny, new_learner):
    resolved = tiny("cila", **{"cila.kappa": 3.0, "cila.distill_weight": 0.5})
    learner = new_learner(resolved)
    seen = {0: [], 1: [], 2: []}
    weights = {0: set(), 1: set(), 2: set()}
    original = learner.method.loss

    def loss(parts, ctx):
        weights[ctx.task.index].add(learner.method.distillation_weight(ctx))
        terms = original(parts, ctx)
        if "ird" in terms and ctx.epoch == ctx.epochs - 1:
            weight = learner.method.distillation_weight(ctx)
            seen[ctx.task.index].append(
                (terms["supcon"].item() / learner.method.scale, terms["ird"].item() / weight)
            )
        return terms

    learner.method.loss = loss
    learner.learn(learner.stream)
    assert weights[1] == {0.5}
    contrast = sum(c for c, _ in seen[1]) / len(seen[1])
    distill = sum(d for _, d in seen[1]) / len(seen[1])
    (last,) = weights[2]
    assert last == pytest.approx(0.5 * max(1.0, 3.0 * distill / contrast), rel=1e-5)
    assert last > 0.5, "kappa was chosen so that the ratio counts"


def test_cclis_reweights_pairs_of_past_classes_only(tiny, learner_in_task, forward):
    learner = learner_in_task(tiny("cclis"), 2)
    part, terms = forward(learner)
    assert set(terms) == {"contrast", "prd"}
    prototypes = learner.ctx.modules["prototypes"].weight.detach()
    scores = prototypes @ part.out.projection.detach().T / learner.method.settings.temperature
    labels, expected = part.y.tolist(), []
    for i, c in enumerate(labels):
        weights = [part.columns["importance"][j].item() for j in range(len(labels))]
        past = [c != label and c < 4 and label < 4 for label in labels]
        terms_of = [
            math.exp(s) / (w if p else 1) for s, w, p in zip(scores[c].tolist(), weights, past, strict=True)
        ]
        expected.append(math.log(sum(terms_of)) - scores[c, i].item())
    assert terms["contrast"].item() == pytest.approx(sum(expected) / len(expected), rel=1e-5)


def test_cclis_importance_is_probability_times_count(tiny, learner_in_task):
    learner = learner_in_task(tiny("cclis"), 1)
    ctx = learner.ctx
    batch = ctx.pool.take(torch.arange(len(ctx.pool)))
    part = learner.method.parts(batch, ctx)["batch"]
    for row in range(len(batch.y)):
        count = int((batch.y == batch.y[row]).sum())
        if batch.memory_rows[row] >= 0:
            probability = ctx.memory["probability"][batch.memory_rows[row]].item()
        else:
            probability = 1 / int((ctx.task.train.y == batch.y[row]).sum())
        assert part.columns["importance"][row].item() == pytest.approx(probability * count)


def test_joint_sees_all_tasks_so_far(tiny, learner_in_task):
    learner = learner_in_task(tiny("joint"), 2)
    assert len(learner.ctx.pool) == sum(len(task.train) for task in learner.stream)


def test_finetune_remembers_nothing(tiny, new_learner):
    resolved = tiny("finetune")
    learner = new_learner(resolved)
    learner.learn(learner.stream)
    assert len(learner.ctx.memory) == 0


@pytest.mark.parametrize("method", ["supcon", "co2l", "cila", "cclis"])
def test_memory_is_full_and_holds_only_what_was_seen(method, tiny, new_learner):
    resolved = tiny(method)
    learner = new_learner(resolved)
    learner.learn(learner.stream)
    memory = learner.ctx.memory
    assert len(memory) == 9
    images = torch.cat([task.train.x for task in learner.stream])
    for row in range(9):
        assert (images == memory["x"][row]).flatten(1).all(1).any()


def test_cclis_previous_prototypes_stay_as_the_last_step_left_them(tiny, learner_in_task, forward):
    learner = learner_in_task(tiny("cclis"), 1)
    ctx = learner.ctx
    lengths = torch.tensor([[0.9], [1.2], [1.0], [1.0], [1.0], [1.0]])
    with torch.no_grad():
        for modules in (ctx.modules, ctx.previous):
            modules["prototypes"].weight.mul_(lengths)
    raw = ctx.previous["prototypes"].weight.clone()
    part, terms = forward(learner)
    torch.testing.assert_close(ctx.modules["prototypes"].weight.norm(dim=1), torch.ones(6))
    assert torch.equal(ctx.previous["prototypes"].weight, raw)
    settings, present = learner.method.settings, ctx.modules["prototypes"].weight
    before, total = part.previous.projection, 0.0
    for z, old in zip(part.out.projection, before, strict=True):
        q = torch.stack([old @ raw[c] for c in range(2)]).div(settings.teacher_temperature).softmax(0)
        p = torch.stack([z @ present[c] for c in range(2)]).div(settings.student_temperature).log_softmax(0)
        total -= (q * p).sum().item()
    assert terms["prd"].item() == pytest.approx(settings.distill_weight * total / len(before), rel=1e-4)


def test_cclis_scores_use_the_prototypes_as_the_last_step_left_them(tiny, learner_in_task, monkeypatch):
    learner = learner_in_task(tiny("cclis", **{"cclis.score_passes": 1}), 0)
    weight = learner.ctx.modules["prototypes"].weight
    with torch.no_grad():
        weight.mul_(3.0)
    raw, seen = weight.detach().clone(), []
    monkeypatch.setattr(
        cclis, "importance_scores", lambda s, y, t: seen.append(s) or importance_scores(s, y, t)
    )
    embed, found = learner.ctx.embed, []
    learner.ctx.embed = lambda *a, **k: (found.append(out) or out for out in embed(*a, **k))
    learner.method.end_task(learner.ctx)
    torch.testing.assert_close(seen[0], torch.cat([out.projection for out in found]) @ raw[:2].T)
    assert torch.equal(weight, raw)


def test_cclis_warms_up_its_prototypes_from_a_start_of_their_own(tiny, new_learner):
    settings = {"train.first_epochs": 4, "train.epochs": 4, "train.lr": 0.5, "cclis.prototype_lr": 0.02}
    learner = new_learner(tiny("cclis", **settings))
    optimizer, train = learner.optimizer, learner.config.train
    names = list(learner.ctx.modules)
    rates = []
    for epoch in range(2):  # the warm-up is cut to half of four epochs, in the middle of the cosine
        optimizer.set_learning_rate(train, epoch, 4, 0.0)
        rates.append({name: group["lr"] for name, group in zip(names, optimizer.param_groups, strict=True)})
    assert rates[0] == pytest.approx({"network": 0.01, "prototypes": 0.001})
    target = {"network": 0.5 * 1.001 / 2, "prototypes": 0.02 * 1.001 / 2}
    start = rates[0]
    assert rates[1] == pytest.approx({name: (start[name] + target[name]) / 2 for name in names})


@pytest.mark.parametrize("method", ["co2l", "cila", "cclis"])
def test_the_end_of_the_warm_up_is_declared(method, tiny, new_learner):
    assert any("train.warmup_target" in text for text in new_learner(tiny(method)).method.DEVIATIONS)


@pytest.mark.parametrize("method", ["co2l", "cila", "cclis"])
def test_the_outputs_of_the_probe_and_short_batches_are_declared(method, tiny, new_learner):
    declared = " ".join(new_learner(tiny(method)).method.DEVIATIONS)
    assert "the probe has outputs for the classes seen alone" in declared
    assert ("the last batch of an epoch is used even if it is smaller" in declared) == (method == "cclis")


@pytest.mark.parametrize("method", ["co2l", "cila"])
def test_further_remembered_images_enter_the_batch_as_its_own_memory_rows_do(method, tiny, learner_in_task):
    plain = learner_in_task(tiny(method), 1)
    learner = learner_in_task(tiny(method, **{f"{method}.memory_batch": 4}), 1)
    batch = learner.ctx.pool.take(torch.arange(3))
    parts = learner.method.parts(batch, learner.ctx)
    (part,) = parts.values()
    drawn = part.y[3:7]
    assert part.y.tolist() == [*batch.y.tolist(), *drawn.tolist()] * 2  # two views
    assert set(drawn.tolist()) <= set(learner.ctx.memory.labels.tolist())
    assert part.past.tolist() == [3, 4, 5, 6, 10, 11, 12, 13]
    assert len(plain.method.parts(batch, plain.ctx)["batch"].y) == 6
    assert "memory_batch" not in plain.config.options[method]
    assert tiny(method, **{f"{method}.memory_batch": 0}).run_id == tiny(method).run_id


@pytest.mark.parametrize("method", ["co2l", "cclis"])
def test_class_means_of_the_memory_can_be_added_to_the_probe(method, tiny, new_learner):
    """Against explicit loops; a finished task that is loaded again has the same predictor."""
    resolved = tiny(method, **{"probe.nearest_mean": 2.0, "data.flip": 0.0})
    learner = new_learner(resolved)
    learner.learn(learner.stream[:2])
    ctx, features = learner.ctx, torch.randn(5, learner.ctx.network.feature_dim)
    means = []
    remembered = torch.nn.functional.normalize(ctx.features(Samples(ctx.memory["x"], ctx.memory["y"])), dim=1)
    for label in ctx.seen:
        rows = [row for row, y in zip(remembered, ctx.memory["y"], strict=True) if y == label]
        means.append(torch.nn.functional.normalize(sum(rows), dim=0))
    scores = ctx.predictor.predictor(features)
    for i, row in enumerate(torch.nn.functional.normalize(features, dim=1)):
        cosines = [float(row @ mean) / 0.1 for mean in means]
        total = math.log(sum(map(math.exp, cosines)))
        expected = [float(s) + 2.0 * (c - total) for s, c in zip(scores[i], cosines, strict=True)]
        assert ctx.predictor(features)[i].tolist() == pytest.approx(expected, rel=1e-4)
    again = new_learner(resolved)
    again.load_state_dict(learner.state_dict())
    assert torch.equal(again.ctx.predictor(features), ctx.predictor(features))
    assert tiny(method, **{"probe.nearest_mean": 0.0}).run_id == tiny(method).run_id
