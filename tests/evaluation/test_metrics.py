import dataclasses
import json

import pytest
import torch

from gplasc.evaluation.accuracy import accuracy_rows
from gplasc.evaluation.geometry import append_diagnosis, diagnose
from gplasc.evaluation.metrics import summarize
from gplasc.geometry import region, simplex_etf
from gplasc.learning.evaluator import _class_means

HAND = [[90.0, None, None], [70.0, 80.0, None], [50.0, 85.0, 60.0]]


def test_hand_matrix():
    found = summarize(HAND, [10, 10, 20])
    assert found == pytest.approx(
        {
            "final_accuracy": 65.0,
            "final_accuracy_by_sample": (50 * 10 + 85 * 10 + 60 * 20) / 40,
            "average_incremental_accuracy": (90 + 75 + 65) / 3,
            "forgetting": ((90 - 50) + (80 - 85)) / 2,
            "forgetting_nonnegative": ((90 - 50) + 0) / 2,
            "backward_transfer": ((50 - 90) + (85 - 80)) / 2,
        }
    )


def test_forgetting_looks_only_at_rows_in_which_the_task_was_learned():
    assert summarize([[10.0, 99.0], [10.0, 50.0]], [1, 1])["forgetting"] == 0.0
    one = summarize([[42.0]], [1])
    assert one["forgetting"] == one["forgetting_nonnegative"] == one["backward_transfer"] == 0.0


def test_a_hole_in_the_matrix_is_an_error():
    with pytest.raises(ValueError, match="task 0 after task 1 is missing"):
        summarize([[1.0, None], [None, 1.0]], [1, 1])


def test_accuracies_are_the_loop_over_samples_and_task_il_is_never_below_class_il():
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(200, 6, generator=generator)
    y = torch.randint(2, 4, (200,), generator=generator)
    (in_class,), (in_task,) = accuracy_rows([scores], [y], [range(2, 4)])
    rows = list(zip(scores.tolist(), y.tolist(), strict=True))
    assert in_class == 100 * sum(row[label] == max(row) for row, label in rows) / 200
    assert in_task == 100 * sum(row[label] == max(row[2:4]) for row, label in rows) / 200
    assert in_task >= in_class
    assert accuracy_rows([scores[:0]], [y[:0]], [range(2, 4)]) == ([0.0], [0.0])


def test_geometry_of_a_perfect_arrangement():
    vertices = simplex_etf(3, 12)
    wanted = region(3, 2, 0.1)
    means = []
    for vertex in vertices:
        other = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        side = torch.nn.functional.normalize(other - (other @ vertex) * vertex, dim=0)
        means.append(
            torch.stack([wanted.center_norm * vertex + sign * wanted.radius * side for sign in (1, -1)])
        )
    slack = dataclasses.replace(wanted, k=wanted.k - 1e-9)
    found = diagnose(means, means, region=slack, vertices=vertices, last_step={"center_norm": 0.5})
    assert found["last_step"] == {"center_norm": 0.5}
    assert found["theory"]["radius"] == wanted.radius
    assert found["center_norm"] == pytest.approx([wanted.center_norm] * 3)
    assert found["radius"] == pytest.approx([wanted.radius] * 3)
    assert found["vertex_cosine"] == pytest.approx([1.0] * 3)
    assert found["center_cosines"][0][1] == pytest.approx(found["etf_cosine"]) == pytest.approx(-0.5)
    assert found["center_cosine_mean"] == pytest.approx(-0.5)
    assert found["center_cosine_max"] == pytest.approx(-0.5)
    assert found["drift"] == pytest.approx([0.0] * 3)
    assert found["pairs_below_threshold"] == 0.0


def test_class_means():
    z = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    assert _class_means(z, torch.tensor([4, 5, 5]), range(4, 6)).tolist() == [[1.0, 0.0], [0.0, 2.0]]


def test_the_entries_of_a_run_grow_with_the_square_of_the_tasks():
    generator = torch.Generator().manual_seed(0)
    means = [torch.randn(2, 6, generator=generator) for _ in range(40)]
    history: list[dict[str, object]] = []
    sizes = {}
    for count in range(1, 41):
        append_diagnosis(history, diagnose(means[:count], means[:count]))
        sizes[count] = len(json.dumps(history))
    assert sizes[40] < 4.5 * sizes[20]
    assert len(history[-1]["center_cosines"]) == 40
    assert not any("center_cosines" in entry for entry in history[:-1])
    assert history[0]["center_cosine_mean"] is history[0]["center_cosine_max"] is None
    centers = [m.mean(0) / m.mean(0).norm() for m in means[:3]]
    cosines = [float(a @ b) for i, a in enumerate(centers) for b in centers[:i]]
    assert history[2]["center_cosine_mean"] == pytest.approx(sum(cosines) / 3)
    assert history[2]["center_cosine_max"] == pytest.approx(max(cosines))
