"""One file for each family of data sets; adding a data set means adding a file here.

A file declares `STREAMS`, a tuple of `StreamInfo`, each with a function `read(request)` that returns `ImageFiles`,
which are decoded and cached, or `ArrayFiles`, the files and a function that loads them. torch and numpy are
imported inside functions: `gplasc list` imports these files and must stay quick.
"""
