"""The reader of TOML: the standard library's, or its twin where Python does not have it yet."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
