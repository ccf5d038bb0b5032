import json
import warnings

import pytest
import torch

from gplasc.errors import UserError
from gplasc.learning import checkpoint
from gplasc.learning.learner import Learner
from gplasc.progress import Lines, Quiet
from gplasc.running import Keeper, NotFinite, execute, open_configured_stream
from gplasc.streams import open_stream


def compute(resolved, out, **more):
    return execute(resolved, out=out, display=Quiet(), device="cpu", **more)


def test_record_is_complete_and_plain_json(tiny, tmp_path):
    result = compute(tiny("co2l", ("gplasc",)), tmp_path)
    record = json.loads((result.folder / "record.json").read_text())
    assert record == json.loads(json.dumps(result.record))
    assert record["run_id"] == result.folder.name
    for scenario in ("class_il", "task_il"):
        matrix = record["matrix"][scenario]
        assert [[value is None for value in row] for row in matrix] == [
            [False, True, True],
            [False, False, True],
            [False, False, False],
        ]
        mean = sum(matrix[-1]) / 3
        assert record["metrics"][scenario]["final_accuracy"] == pytest.approx(mean)
    assert all(
        t >= c for t, c in zip(record["matrix"]["task_il"][-1], record["matrix"]["class_il"][-1], strict=True)
    )
    assert len(record["geometry"]) == len(record["timings"]) == 3
    assert set(record["timings"][0]) == {"train", "predictor", "memory", "evaluation"}
    assert record["geometry"][-1]["etf_cosine"] == pytest.approx(-0.5)
    assert record["memory"]["rows"] == 9
    assert record["sources"]["buffer"] == "given"
    assert (result.folder / "weights.safetensors").exists()
    assert not list(result.folder.glob("checkpoint-*")), "a finished run needs no checkpoint"


def test_a_complete_run_is_not_computed_again(tiny, tmp_path, monkeypatch):
    first = compute(tiny(), tmp_path)
    monkeypatch.setattr(Learner, "learn", lambda self: pytest.fail("learned again"))
    assert compute(tiny(), tmp_path).record == json.loads(json.dumps(first.record))


def test_the_terms_of_every_step_are_logged(tiny, tmp_path):
    result = compute(tiny("co2l", ("gplasc",)), tmp_path)
    rows = [json.loads(line) for line in (result.folder / "terms.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(1, result.record["steps"] + 1))
    assert {"supcon", "range", "position", "distill"} < set(rows[0])
    assert "ird" not in rows[0]
    assert "ird" in rows[-1]


@pytest.mark.parametrize("method", ["finetune", "supcon", "co2l", "cila", "cclis", "joint"])
def test_state_through_a_file_continues_bit_for_bit(method, tiny, tmp_path):
    resolved = tiny(method, ("gplasc",))
    stream = open_configured_stream(resolved, None)
    whole = Learner(resolved.config, stream)
    whole.learn()

    class Stop(Exception):
        pass

    class Stopper:
        def __init__(self, at):
            self.at = at

        def step(self, learner, terms, lr, images):
            if learner.position.total_steps == self.at:
                raise Stop

        def trained(self, learner):
            pass

        evaluated = trained

        def pulse(self, phase, done):
            pass

    for at in (1, 5, 8):
        first = Learner(resolved.config, stream, watcher=Stopper(at))
        with pytest.raises(Stop):
            first.learn()
        checkpoint.save(tmp_path, at, first.state_dict())
        state, damaged = checkpoint.load_newest(tmp_path)
        assert not damaged
        second = Learner(resolved.config, stream)
        second.load_state_dict(state)
        second.learn()
        for name, value in whole.ctx.modules.state_dict().items():
            other = second.ctx.modules.state_dict()[name]
            assert torch.equal(other, value) if isinstance(value, torch.Tensor) else other == value, name
        assert second.class_il == whole.class_il
        assert torch.equal(second.ctx.memory["x"], whole.ctx.memory["x"]) if len(whole.ctx.memory) else True


def test_a_damaged_checkpoint_is_passed_over(tiny, tmp_path):
    for number in (1, 2, 3):
        checkpoint.save(tmp_path, number, {"value": number})
    paths = sorted(tmp_path.glob("checkpoint-*.pt"))
    assert len(paths) == 2
    data = bytearray(paths[-1].read_bytes())
    data[len(data) // 2] ^= 1
    paths[-1].write_bytes(data)
    state, damaged = checkpoint.load_newest(tmp_path)
    assert state == {"value": 2}
    assert damaged == [paths[-1]]
    paths[0].write_bytes(b"")
    assert checkpoint.load_newest(tmp_path) == (None, [paths[1], paths[0]])


def test_resuming_after_damage_gives_the_same_result(tiny, tmp_path, monkeypatch, capsys):
    whole = compute(tiny(), tmp_path / "whole")
    resolved = tiny()
    original = Learner._finish

    def crash(self, task):
        if task.index == 1:
            raise RuntimeError("power cut")
        original(self, task)

    monkeypatch.setattr(Learner, "_finish", crash)
    with pytest.raises(RuntimeError):
        compute(resolved, tmp_path / "cut", save_steps=1)
    monkeypatch.undo()
    folder = tmp_path / "cut" / resolved.config.run_id
    newest = sorted(folder.glob("checkpoint-*.pt"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    import sys

    again = execute(resolved, out=tmp_path / "cut", display=Lines(sys.stderr), device="cpu")
    assert "is damaged; using the one before it" in capsys.readouterr().err
    assert again.record["weights_sha256"] == whole.record["weights_sha256"]
    assert again.record["matrix"] == whole.record["matrix"]


def test_a_term_that_is_not_finite_stops_the_run_by_name(tiny, tmp_path):
    resolved = tiny(
        "co2l",
        **{"train.lr": 1e30, "train.warmup_epochs": 0, "train.epochs": 40, "train.schedule": "constant"},
    )
    with pytest.raises(NotFinite, match=r"the term 'supcon' is \S+ at task \d, epoch \d+, step \d+"):
        compute(resolved, tmp_path)
    assert not list(tmp_path.glob("*/record.json"))


def test_a_full_disk_is_a_sentence_and_the_last_checkpoint_stays(tiny, tmp_path, monkeypatch):
    resolved = tiny()
    folder = tmp_path / resolved.config.run_id
    import gplasc.learning.checkpoint as module

    original = module.write_atomic
    writes = []

    def full(path, content):
        if len(writes) >= 3:
            raise UserError(
                f"cannot write {path}: No space left on device; choose another place or make room"
            )
        writes.append(path)
        return original(path, content)

    monkeypatch.setattr(module, "write_atomic", full)
    with pytest.raises(UserError, match="No space left on device"):
        compute(resolved, tmp_path, save_steps=1)
    state, damaged = checkpoint.load_newest(folder)
    assert state is not None
    assert not damaged


def test_a_folder_that_cannot_be_made_is_a_sentence(tiny, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        compute(tiny(), tmp_path / "file")


def test_the_plug_in_leaves_the_methods_randomness_alone(tiny):
    """Same batches, same augmentation: a pair with and without the plug-in differs in the plug-in alone."""
    seen = []
    for plugins in ((), ("gplasc",)):
        resolved = tiny("co2l", plugins)
        learner = Learner(resolved.config, open_configured_stream(resolved, None))
        original = learner.method.parts
        batches = []

        def parts(batch, ctx, original=original, batches=batches):
            made = original(batch, ctx)
            batches.append(made[0].x.clone())
            return made

        learner.method.parts = parts
        learner.learn()
        seen.append(batches)
    assert len(seen[0]) == len(seen[1])
    assert all(torch.equal(a, b) for a, b in zip(*seen, strict=True))


def test_previous_model_is_run_once_a_step_whoever_asks(tiny):
    resolved = tiny("co2l", ("gplasc",))
    learner = Learner(resolved.config, open_configured_stream(resolved, None))
    calls = []
    original = learner.ctx.keep_previous

    def keep():
        original()
        learner.ctx.previous.register_forward_hook(lambda *_: calls.append(1))

    learner.ctx.keep_previous = keep
    learner.learn()
    later = sum(learner.steps_of(index) for index in (1, 2))
    assert len(calls) == later


def test_evaluation_may_use_a_validation_split(tiny, tmp_path):
    result = compute(tiny(**{"data.validation": 0.5, "data.evaluate_on": "validation"}), tmp_path)
    assert result.record["stream"]["train_samples"] == result.record["stream"]["test_samples"]


def test_dry_run_writes_nothing(tiny, tmp_path, monkeypatch):
    from gplasc.cost import estimate_cost

    monkeypatch.chdir(tmp_path)
    text = estimate_cost(tiny("cclis", ("gplasc",)), device="cpu")
    for word in ("steps", "parameters", "memory", "disk", "time"):
        assert f"\n{word}" in text
    assert not list(tmp_path.iterdir())


def test_published_probe_trains_like_the_cached_one(tiny):
    from gplasc.learning.probe import train_probe

    accuracy = {}
    for mode in ("cached", "published"):
        resolved = tiny(
            "supcon", **{"probe.mode": mode, "probe.epochs": 30, "train.epochs": 8, "train.first_epochs": 8}
        )
        learner = Learner(resolved.config, open_configured_stream(resolved, None)[:1])
        learner.learn()
        assert isinstance(learner.predictor, torch.nn.Linear)
        accuracy[mode] = learner.class_il[-1][0]
        assert train_probe.__doc__
    assert abs(accuracy["cached"] - accuracy["published"]) <= 50.0
    assert min(accuracy.values()) >= 50.0


def test_signals_outside_the_main_thread_are_left_alone(tmp_path):
    import threading

    keeper = Keeper(tmp_path, Quiet(), save_every=1.0)
    errors = []

    def work():
        try:
            with keeper.heeding_signals():
                pass
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors


def test_a_stream_object_can_be_run(tmp_path):
    import gplasc

    stream = open_stream("synthetic:tasks=2,classes=2,size=8,channels=1,train=6,test=4")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = gplasc.run(
            stream,
            "co2l",
            "gplasc",
            scale="smoke",
            out=tmp_path,
            quiet=True,
            device="cpu",
            **{"model.encoder": "small"},
        )
    assert len(result.record["matrix"]["class_il"]) == 2
    assert result.metric() == result.record["metrics"]["class_il"]["final_accuracy"]
