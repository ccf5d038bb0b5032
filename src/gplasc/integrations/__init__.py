"""Other people's frameworks; each module is imported only when asked for, and needs the package it is named after."""
