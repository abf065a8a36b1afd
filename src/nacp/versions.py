"""The version of nacp, and of what it uses."""

import platform

from nacp.engine.choose import current, is_built

__version__ = "0.1.0"

_MENTIONED = ("numpy", "scipy", "scikit-learn", "torch", "matplotlib", "pyarrow", "safetensors")


def show_versions() -> None:
    """Print the versions of nacp and of the packages that it uses, and the engine; for bug reports.

    Examples
    --------
    >>> import nacp
    >>> nacp.show_versions()
    nacp          0.1.0
    engine        ...
    python        ...
    """
    from importlib.metadata import PackageNotFoundError, version  # which imports a lot

    engine = current().NAME
    if engine == "numpy" and not is_built():
        engine += " (the compiled engine could not be built when nacp was installed)"
    found = {"nacp": __version__, "engine": engine, "python": platform.python_version()}
    for name in _MENTIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    print("\n".join(f"{name:<14}{said}" for name, said in found.items()))
