# SPDX-License-Identifier: BSD-2-Clause
"""What pyproject.toml cannot say: the version is that of libexs, which pkg-config knows, and cffi builds the extension."""
import subprocess

from setuptools import setup

setup(
    version=subprocess.run(["pkg-config", "--modversion", "exs"], check=True, capture_output=True, text=True).stdout.strip(),
    cffi_modules=["exs_build.py:ffi"],
)
