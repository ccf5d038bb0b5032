"""Class-incremental learning with contrastive and replay methods, and GPLASC as a plug-in for all of them."""

__version__ = "0.1.0"
