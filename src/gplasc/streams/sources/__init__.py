"""One file for each family of data sets; adding a data set means adding a file here.

A file declares `STREAMS`, a tuple of `StreamInfo`, and has a function `read(request)` that returns a
`Dataset`, or an `ImageFiles` where images are decoded from files. Files that return a `Dataset` made from
files on disk also have `files(request)`, which returns the paths that `read` would read. torch and numpy are
imported inside functions: `gplasc list` imports these files and must stay quick.
"""
