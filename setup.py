"""The compiled engine. Without a C compiler nacp is installed all the same, and NumPy does its work."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "nacp.engine._native",
            ["src/nacp/engine/native.c"],
            depends=["src/nacp/engine/rows.h"],
            extra_compile_args=["-std=gnu11", "-O3", "-ffp-contract=off"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
