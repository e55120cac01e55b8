# SPDX-License-Identifier: BSD-2-Clause
"""The extension that exs_build.py builds; cffi has no types for it."""
from typing import Any

ffi: Any
lib: Any
