"""Herding against the definition, written as a double loop."""

import torch

from gplasc.memory.herding import herding_order


def plain_herding(features, count):
    mean, chosen = features.mean(0), []
    for _ in range(min(count, len(features))):
        best, least = None, None
        for candidate in range(len(features)):
            if candidate in chosen:
                continue
            distance = float((mean - features[[*chosen, candidate]].mean(0)).norm())
            if least is None or distance < least:
                best, least = candidate, distance
        chosen.append(best)
    return chosen


def test_equals_the_double_loop():
    generator = torch.Generator().manual_seed(0)
    for size, dim, count in [(12, 3, 12), (30, 5, 8), (1, 4, 3), (6, 2, 0)]:
        features = torch.randn(size, dim, generator=generator, dtype=torch.float64)
        assert herding_order(features, count).tolist() == plain_herding(features, count)


def test_the_first_is_the_nearest_to_the_mean():
    features = torch.randn(40, 6, generator=torch.Generator().manual_seed(3))
    nearest = (features - features.mean(0)).norm(dim=1).argmin()
    assert herding_order(features, 5)[0] == nearest


def test_a_smaller_choice_is_the_beginning_of_a_larger():
    features = torch.randn(25, 4, generator=torch.Generator().manual_seed(4))
    assert torch.equal(herding_order(features, 20)[:7], herding_order(features, 7))


def test_represents_the_mean_better_than_chance():
    features = torch.randn(200, 8, generator=torch.Generator().manual_seed(5))
    mean = features.mean(0)
    herded = (features[herding_order(features, 10)].mean(0) - mean).norm()
    chance = (features[:10].mean(0) - mean).norm()
    assert herded < chance / 5
