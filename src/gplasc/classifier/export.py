"""A classifier as one file that predicts without gplasc: ONNX, torch.export or safetensors."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import Literal, get_args

import torch
from safetensors.torch import save
from torch import Tensor, nn

import gplasc
from gplasc._io.files import atomic_path
from gplasc.classifier import ContinualClassifier
from gplasc.classifier._pipeline import Pipeline
from gplasc.errors import UserError

Format = Literal["onnx", "pt2", "safetensors"]


def export_classifier(classifier: ContinualClassifier, to: Format, out: str | Path) -> Path:
    """Write a classifier as one file.

    ONNX and pt2 hold a function from ``images``, uint8 (N, H, W, C) of any N, H and W, to ``probabilities``,
    float32 (N, classes), and ``likeness``, (N,), which is below 0 for images of no known class: cropping, resizing and
    normalization are part of it. The class names are in the metadata under ``classes`` as a JSON list. safetensors
    holds weights only, with the same metadata.

    Args:
        classifier: A classifier that has learned something.
        to: The format.
        out: The file to write.

    Returns:
        The file.

    Raises:
        UserError: If packages are missing, the encoder cannot be exported, or the file cannot be written.
    """
    if to not in get_args(Format):
        raise UserError(f"the format is {to!r}; allowed: {', '.join(get_args(Format))}")
    pipeline = classifier.pipeline
    metadata = {
        "classes": json.dumps(classifier.classes_.tolist()),
        "image_size": str(pipeline.size),
        "channels": str(pipeline.channels),
        "gplasc": gplasc.__version__,
    }
    with atomic_path(out) as path, warnings.catch_warnings():
        if to == "safetensors":
            weights = {
                name: value.detach().cpu().contiguous().clone()
                for name, value in pipeline.state_dict().items()
            }
            path.write_bytes(
                save(weights, metadata)
            )  # save_file would make the file readable for its owner only
            return Path(out)
        program = _exported(pipeline)
        warnings.simplefilter("ignore")  # of the exporters, about their own parts
        if to == "pt2":
            extra = {f"{name}.json": text for name, text in metadata.items()}
            torch.export.save(program, path, extra_files=extra)
        else:
            _write_onnx(program, path, metadata)
    return Path(out)


class _FromPixels(nn.Module):
    """The pipeline on images in the layout of files: (N, H, W, C) uint8."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__()
        self.pipeline = pipeline

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        outputs: tuple[Tensor, Tensor] = self.pipeline(images.permute(0, 3, 1, 2))
        return outputs


def _exported(pipeline: Pipeline) -> torch.export.ExportedProgram:
    size = pipeline.size
    if not size:
        raise UserError("the classifier learned features and has no encoder; export safetensors")
    example = torch.zeros(2, size + 3, size + 5, pipeline.channels, dtype=torch.uint8)
    dims = torch.export.Dim
    shapes = {"images": {0: dims("batch", min=1), 1: dims("height", min=2), 2: dims("width", min=2)}}
    module = _FromPixels(pipeline).cpu().eval()
    try:
        with torch.no_grad():
            return torch.export.export(module, (example,), dynamic_shapes=shapes)
    except Exception as error:  # a user's encoder may use what cannot be exported
        reason = str(error).partition("\n")[0]
        reason = f"{type(error).__name__}: {reason}"
        raise UserError(f"the encoder cannot be exported ({reason}); export safetensors instead") from error


def _write_onnx(program: torch.export.ExportedProgram, path: Path, metadata: dict[str, str]) -> None:
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise UserError("export to ONNX needs the extra 'onnx': pip install 'gplasc[onnx]'") from None
    # Without torchvision the exporter logs four warnings about operators of torchvision, which are not used here.
    logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
    outputs = ["probabilities", "likeness"]
    exported = torch.onnx.export(
        program, dynamo=True, input_names=["images"], output_names=outputs, verbose=False, optimize=True
    )
    assert exported is not None
    model = exported.model_proto  # made anew at each access
    onnx.helper.set_model_props(model, metadata)
    onnx.save(model, str(path))
