import json

import pytest
import torch

from gplasc._io.display import Display
from gplasc.errors import UserError
from gplasc.evaluation.accuracy import accuracy_rows
from gplasc.runs.execute import execute
from gplasc.runs.result import Result
from gplasc.runs.workspace import Workspace


@pytest.mark.parametrize(("method", "plugins"), [("co2l", ("gplasc",)), ("cclis", ()), ("er", ("gplasc",))])
def test_the_network_is_the_one_that_was_trained(method, plugins, tiny, tmp_path):
    result = execute(
        tiny(method, plugins, **{"model.features": "signed"}),
        Workspace(tmp_path, device="cpu"),
        display=Display(),
    )
    run = Result.read(result.folder).load(device="cpu")
    assert run.config.run_id == result.run_id
    assert not run.network.training
    task = run.stream[2]
    samples = run.evaluation_samples(task)
    features = run.features(samples)
    assert features.shape == (len(samples), run.network.feature_dim)
    assert torch.equal(features, run.features(samples)), "features must not depend on chance"
    if method == "er":  # its classifier is part of the network: the last row can be computed again
        scores = run.network.classifier(features)
        in_class, _ = accuracy_rows([scores], [samples.y], [task.classes])
        assert in_class[0] == result.record["matrix"]["class_il"][-1][2]


def test_wrong_or_damaged_folders(tiny, tmp_path):
    with pytest.raises(UserError, match="no complete run"):
        Result.read(tmp_path).load()
    result = execute(tiny("finetune"), Workspace(tmp_path, device="cpu"), display=Display())
    other = execute(tiny("finetune", seed=1), Workspace(tmp_path, device="cpu"), display=Display())
    weights = result.folder / "weights.safetensors"
    good = weights.read_bytes()
    weights.write_bytes((other.folder / "weights.safetensors").read_bytes())
    with pytest.raises(UserError, match="not those of its record"):
        Result.read(result.folder).load()
    weights.write_bytes(good[:-100])
    with pytest.raises(UserError, match="cannot be read"):
        Result.read(result.folder).load()
    weights.write_bytes(good)
    record = json.loads((result.folder / "record.json").read_text())
    record["settings"]["model"]["encoder"] = "resnet18"
    (result.folder / "record.json").write_text(json.dumps(record))
    with pytest.raises(UserError, match="do not belong"):
        Result.read(result.folder).load()
