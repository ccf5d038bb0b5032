"""Augmentation of whole batches: random per image, on any device, driven by a generator that is passed in.

An augmentation is a frozen object that is called with uint8 images (N, C, H, W) and a generator and returns
float32 images, normalized, channels last:

    x = Contrastive(32, mean, std)(images, generator, views=2)    # two views for the contrastive methods
    x = Replay(32, mean, std)(images, generator)                  # padded crop and flip for the replay methods
    x = Plain(mean, std)(images, generator)                       # test time

A call draws all random numbers on the CPU (`draw`) and computes the images from them (`apply`). A generator state
therefore gives the same random numbers on every device, and a process can draw for all rows and compute its share.
"""

from gplasc.streams.augment.basic import Augmentation, Plain, Replay, StoredViews
from gplasc.streams.augment.contrastive import Contrastive

__all__ = ["DEVIATIONS", "Augmentation", "Contrastive", "Plain", "Replay", "StoredViews"]

DEVIATIONS = (
    "hue turns the colors about the gray axis of RGB, which keeps the mean of the channels; torchvision turns it in "
    "HSV, which keeps the largest and the smallest channel instead",
    "the order is brightness, contrast, saturation, hue, gray for every image; torchvision draws the order of the "
    "first four anew for each image",
    "clipping to black and white happens once, after color and blur, not after every color operation",
    "values are not rounded to 256 steps between the operations",
    "CIFAR-10 is normalized with its standard deviation over all pixels (0.2470, 0.2435, 0.2615), as in Mammoth; "
    "the code of SupContrast, Co2L and CCLIS divides by (0.2023, 0.1994, 0.2010), the mean of the images' own",
    "CIFAR-100 is normalized with mean (0.5071, 0.4867, 0.4408) and standard deviation (0.2675, 0.2565, 0.2761), as in "
    "SupContrast and Mammoth; the code of CCLIS has (0.5153, 0.4961, 0.4497) and (0.2608, 0.2551, 0.2779)",
)
"""Differences from torchvision's transforms, on which the code of SupContrast, Co2L and CCLIS is built, and from
the constants of that code."""
