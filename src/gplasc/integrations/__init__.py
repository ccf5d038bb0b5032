"""Plug-ins for other frameworks. Each module needs the package of its name, and is imported only when asked for."""
