"""Commands ``info`` and ``export``."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Literal


def _info(state: Path, /, *, json: bool = False) -> int:
    """Print what a classifier has learned.

    These are classes, tasks, memory, encoder, size and accuracies.

    For example:
    gplasc info flowers

    Args:
        state: Folder of the classifier's state.
        json: Print one JSON object.
    """
    from gplasc.classifier.info import describe_state, print_state

    if json:
        print(json_module.dumps(describe_state(state)))
    else:
        print_state(state)
    return 0


def _export(
    state: Path, /, *, to: Literal["onnx", "pt2", "safetensors"] = "onnx", out: Path | None = None
) -> int:
    """Write a classifier as one file that predicts without gplasc.

    Preprocessing is included, and class names are metadata.

    For example:
    gplasc export flowers --to onnx --out flowers.onnx

    Args:
        state: Folder of the classifier's state.
        to: onnx: for onnxruntime and others; pt2: torch.export; safetensors: the weights.
        out: The file to write; default: STATE.onnx and so on, next to the state folder.
    """
    from gplasc.classifier import ContinualClassifier
    from gplasc.classifier.export import export_classifier

    classifier = ContinualClassifier.load(state, device="cpu", quiet=True)
    print(export_classifier(classifier, to, out or state.with_name(f"{state.name}.{to}")))
    return 0
