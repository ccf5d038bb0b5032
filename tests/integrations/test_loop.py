"""The object for other training loops, against a loop written out by hand."""

import copy

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from gplasc import GPLASC
from gplasc.errors import UserError
from gplasc.loop import GPLASCLoop
from gplasc.losses import assignment_loss, unit_rows


def new_encoder() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 8))


def new_loop(encoder, **more) -> GPLASCLoop:
    criterion = GPLASC(num_tasks=3, feature_dim=8, frame="simplex", num_classes=2)
    return GPLASCLoop(criterion, encoder, **{"memory": 6, "memory_batch": 4, **more})


def batch(task: int, step: int):
    draw = torch.Generator().manual_seed(100 * task + step)
    y = torch.arange(8) % 2 + 2 * task
    return torch.randn(8, 6, generator=draw) + y[:, None], y


def learn(loop, optimizer, task, steps=range(4)):
    terms = {}
    for step in steps:
        x, y = batch(task, step)
        terms = loop.terms(x, y)
        optimizer.zero_grad()
        sum(terms.values()).backward()
        optimizer.step()
    return terms


def test_terms_equal_those_of_the_criterion_called_by_hand():
    encoder = new_encoder()
    loop, by_hand = new_loop(encoder), GPLASC(num_tasks=3, feature_dim=8, frame="simplex", num_classes=2)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    loop.begin_task()
    learn(loop, optimizer, 0)
    loop.end_task()
    before = copy.deepcopy(encoder).eval()
    with torch.no_grad():
        for weight in encoder.parameters():
            weight.add_(0.1)
    remembered = loop.memory["x"].clone()
    loop.memory_batch = len(remembered)  # all of them, so that the order of the draw does not matter
    x, y = batch(1, 0)
    mixed_x, mixed_y = torch.cat([x, batch(0, 0)[0][:2]]), torch.cat([y, batch(0, 0)[1][:2]])
    loop.begin_task()
    encoder.eval()  # so that a row's features do not depend on its batch
    found = loop.terms(mixed_x, mixed_y)
    past = torch.cat([mixed_x[8:], remembered])
    expected = by_hand(encoder(x), y, 1, past_features=encoder(past), previous_features=before(past))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)
    assert found["distill"] > 0


def test_the_assignment_and_the_prediction_are_those_of_the_criterion():
    """Past rows are those of the batch and of the memory; a prediction adds the log-probability of the places."""
    torch.manual_seed(0)
    encoder, head = nn.Linear(6, 8), nn.Linear(8, 4)
    criterion = GPLASC(num_tasks=3, feature_dim=8, frame="simplex", num_classes=2, lambda_assign=0.5)
    loop = GPLASCLoop(criterion, encoder, memory=4, memory_batch=4)
    with pytest.raises(UserError, match="no task was begun"):
        loop.predict(torch.zeros(1, 6))
    loop.begin_task()
    x, y = batch(0, 0)
    assert set(loop.predict(x).tolist()) <= {0, 1}
    loop.terms(x, y)
    loop.end_task()
    loop.begin_task()
    past_x, past_y = loop.memory["x"], loop.memory["y"]
    x, y = batch(1, 0)
    terms = loop.terms(torch.cat([x, past_x[:2]]), torch.cat([y, past_y[:2]]))
    rows = unit_rows(encoder(torch.cat([x, past_x[:2], past_x])))
    places = criterion.class_places(2)
    wanted = assignment_loss(rows, torch.cat([y, past_y[:2], past_y]), places, temperature=0.1)
    assert terms["assign"].item() == pytest.approx(0.5 * wanted.item(), rel=1e-5)
    scores = head(encoder(x))
    nearness = (unit_rows(encoder(x)) @ places[:4].T / 0.1).log_softmax(1)
    assert torch.equal(loop.predict(x), nearness.argmax(1))
    assert torch.equal(loop.predict(x, scores=scores, weight=0.2), (scores + 0.2 * nearness).argmax(1))


def test_the_assignment_learns_tasks_one_after_the_other():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 8))
    criterion = GPLASC(num_tasks=3, feature_dim=8, frame="simplex", num_classes=2, lambda_assign=1.0)
    loop = GPLASCLoop(criterion, encoder, memory=12, memory_batch=12)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)
    centers = 4 * torch.randn(6, 6)
    for task in range(3):
        loop.begin_task()
        for _ in range(60):
            y = torch.arange(16) % 2 + 2 * task
            optimizer.zero_grad()
            sum(loop.terms(centers[y] + torch.randn(16, 6), y).values()).backward()
            optimizer.step()
        loop.end_task()
    y = torch.arange(6).repeat(20)
    assert (loop.predict(centers[y] + torch.randn(120, 6)) == y).float().mean() > 0.8


def test_equal_weights_have_no_distance_with_batchnorm():
    loop = new_loop(new_encoder())
    loop.begin_task()
    loop.terms(*batch(0, 0))
    loop.end_task()
    loop.begin_task()
    (x, y), (old_x, old_y) = batch(1, 0), batch(0, 1)
    before = copy.deepcopy(loop.previous.state_dict())
    terms = loop.terms(torch.cat([x, old_x[:3]]), torch.cat([y, old_y[:3]]))
    assert abs(terms["distill"].item()) < 1e-12
    assert torch.equal(before["1.running_mean"], loop.previous.state_dict()["1.running_mean"])


def test_memory_is_balanced_and_holds_earlier_tasks_only():
    encoder = new_encoder()
    loop, optimizer = new_loop(encoder, memory=8), torch.optim.SGD(encoder.parameters(), lr=0.1)
    for task in range(2):
        loop.begin_task()
        learn(loop, optimizer, task)
        assert set(loop.memory["y"].tolist() if task else []) <= set(range(2 * task))
        loop.end_task()
    assert loop.memory["y"].bincount().tolist() == [2, 2, 2, 2]
    seen = torch.cat([batch(task, step)[0] for task in range(2) for step in range(4)])
    assert all((seen == row).all(1).any() for row in loop.memory["x"])


def test_previous_encoder_is_frozen_and_not_in_the_module_tree():
    model = nn.Module()
    model.encoder = new_encoder()
    model.gplasc = new_loop(model.encoder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.gplasc.begin_task()
    learn(model.gplasc, optimizer, 0)
    model.gplasc.end_task()
    before = copy.deepcopy(model.gplasc.previous.state_dict())
    model.gplasc.begin_task()
    learn(model.gplasc, optimizer, 1)
    after = model.gplasc.previous.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in after if "num_batches" not in name)
    assert not any(weight.requires_grad for weight in model.gplasc.previous.parameters())
    assert {name.partition(".")[0] for name in model.state_dict()} == {"encoder"}


def test_forward_passes_leave_batchnorm_statistics_alone():
    encoder = new_encoder()
    loop = new_loop(encoder)
    loop.begin_task()
    loop.terms(*batch(0, 0))
    assert torch.equal(encoder[1].running_mean, torch.zeros(12))


@pytest.mark.parametrize("stop", [0, 2, 4])
def test_saved_in_the_middle_of_a_task_it_continues_bit_for_bit(tmp_path, stop):
    def start():
        encoder = new_encoder()
        loop, optimizer = new_loop(encoder), torch.optim.SGD(encoder.parameters(), lr=0.1)
        loop.begin_task(num_classes=2)
        learn(loop, optimizer, 0)
        loop.end_task()
        loop.begin_task()
        learn(loop, optimizer, 1, range(stop))
        return encoder, loop

    encoder, loop = start()
    loop.save(tmp_path / "state.safetensors")
    other_encoder = new_encoder()
    other_encoder.load_state_dict(encoder.state_dict())
    other = new_loop(other_encoder)
    other.load(tmp_path / "state.safetensors")
    assert (other.task, other.tasks_done) == (1, 1)
    ends = []
    for one, its_encoder in ((loop, encoder), (other, other_encoder)):
        learn(one, torch.optim.SGD(its_encoder.parameters(), lr=0.1), 1, range(stop, 6))
        one.end_task()
        ends.append((its_encoder.state_dict(), one.state_dict()))
    for first, second in zip(*ends, strict=True):
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(
        isinstance(value, torch.Tensor) for value in load_file(tmp_path / "state.safetensors").values()
    )


def test_more_tasks_than_announced_get_directions():
    loop = new_loop(new_encoder())
    for task in range(4):
        loop.begin_task(task)
        loop.end_task()
    assert loop.criterion.num_tasks == 4


def one_hot(x, y):
    return x, nn.functional.one_hot(y)


def second_task(loop: GPLASCLoop) -> GPLASCLoop:
    loop.begin_task()
    loop.terms(*batch(0, 0))
    loop.end_task()
    loop.begin_task()
    return loop


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (
            lambda loop: second_task(loop).terms(*batch(0, 1)),
            "belong to earlier tasks.*number labels over all tasks",
        ),
        (lambda loop: second_task(loop).terms(*batch(1, 0), features=torch.randn(8, 8)), "not detached"),
    ],
)
def test_what_would_do_nothing_is_warned_about_at_the_line_of_the_caller(use, sentence):
    with pytest.warns(UserWarning, match=sentence) as caught:
        use(new_loop(new_encoder()))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda loop: loop.terms(*batch(0, 0)), "call begin_task"),
        (lambda loop: loop.end_task(), "call begin_task"),
        (lambda loop: (loop.begin_task(), loop.begin_task()), "call end_task"),
        (lambda loop: loop.begin_task(num_classes=0), "1 class or more"),
        (lambda loop: loop.begin_task(2), "the next one is 0: tasks are counted from 0"),
        (
            lambda loop: (loop.begin_task(), loop.terms(batch(0, 0)[0], torch.arange(8) % 5)),
            "0, 1, 2, 3, 4, but .* 2",
        ),
        (lambda loop: loop.load_state_dict({}), "does not fit"),
        (lambda loop: loop.load("absent.safetensors"), "cannot be read"),
        (lambda loop: new_loop(loop.encoder, memory=-1), "memory is -1"),
    ],
)
def test_mistakes_get_one_sentence(use, sentence):
    with pytest.raises(UserError, match=sentence):
        use(new_loop(new_encoder()))


@pytest.mark.parametrize("call", [GPLASCLoop.terms, lambda loop, x, y: loop.criterion(loop.encoder(x), y, 0)])
def test_one_hot_labels_and_too_many_labels_are_named(call):
    loop = new_loop(new_encoder())
    loop.begin_task()
    with pytest.raises(
        ValueError, match=r"must have shape \(8,\), got \(8, 2\). Pass class numbers: \w+.argmax\(1\)"
    ):
        call(loop, *one_hot(*batch(0, 0)))
    with pytest.raises((UserError, ValueError), match="num_classes says"):
        call(loop, batch(0, 0)[0], torch.arange(8) % 5)
