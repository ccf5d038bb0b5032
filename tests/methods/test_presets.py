"""The published settings of the replay family, as `resolve` gives them."""

import pytest

from gplasc.resolve import resolve

PUBLISHED = [
    (
        "seq-cifar10",
        "er",
        200,
        {"train.lr": 0.1, "er.memory_batch": 32, "train.batch": 32, "train.epochs": 50},
    ),
    ("seq-cifar10", "gem", 200, {"train.lr": 0.03, "gem.margin": 0.5}),
    ("seq-cifar10", "agem", 500, {"train.lr": 0.03, "agem.memory_batch": 32}),
    ("seq-cifar10", "gss", 200, {"train.lr": 0.03, "gss.gradient_batch": 32}),
    ("seq-cifar10", "gss", 5120, {"train.epochs": 1}),
    ("seq-cifar10", "icarl", 500, {"train.lr": 0.1, "train.weight_decay": 2e-5}),
    ("seq-cifar10", "icarl", 5120, {"train.lr": 0.03}),
    ("seq-cifar10", "der", 500, {"train.lr": 0.03, "der.alpha": 0.3}),
    ("seq-cifar10", "derpp", 200, {"train.lr": 0.03, "derpp.alpha": 0.1, "derpp.beta": 0.5}),
    ("seq-cifar10", "derpp", 500, {"derpp.alpha": 0.2, "derpp.beta": 0.5}),
    ("seq-cifar10", "derpp", 5120, {"derpp.alpha": 0.1, "derpp.beta": 1.0}),
    ("seq-cifar100", "icarl", 500, {"train.lr": 0.3}),
    ("seq-cifar100", "derpp", 500, {"train.lr": 0.03, "derpp.alpha": 0.1, "derpp.beta": 0.5}),
    ("seq-tinyimagenet", "finetune", 200, {"train.lr": 0.03, "train.epochs": 100}),
    ("seq-tinyimagenet", "er", 200, {"train.lr": 0.1}),
    ("seq-tinyimagenet", "er", 500, {"train.lr": 0.03}),
    ("seq-tinyimagenet", "agem", 200, {"train.lr": 0.01}),
    ("seq-tinyimagenet", "der", 200, {"train.lr": 0.03, "der.alpha": 0.1}),
    ("seq-tinyimagenet", "derpp", 200, {"derpp.alpha": 0.1, "derpp.beta": 1.0}),
    ("seq-tinyimagenet", "derpp", 500, {"derpp.alpha": 0.2, "derpp.beta": 0.5}),
    ("seq-mnist", "er", 200, {"train.lr": 0.01, "train.batch": 10, "train.epochs": 1, "er.memory_batch": 10}),
    ("seq-mnist", "er", 500, {"train.lr": 0.1}),
    ("seq-mnist", "der", 500, {"train.lr": 0.03, "der.alpha": 1.0, "der.memory_batch": 128}),
]


@pytest.mark.parametrize(("stream", "method", "buffer", "expected"), PUBLISHED)
def test_published_settings(stream, method, buffer, expected):
    resolved = resolve(stream, method, buffer=buffer, scale="paper")
    flat = resolved.config.flat()
    assert {name: flat[name] for name in expected} == expected
    assert flat["train.momentum"] == 0.0
    assert flat["train.keep_optimizer"] is False


def test_the_default_buffer_has_the_settings_of_200():
    given = resolve("seq-cifar10", "derpp", buffer=200, scale="paper").config
    assert resolve("seq-cifar10", "derpp", scale="paper").config == given
