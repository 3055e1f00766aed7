#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""generated.py <generator> <file>: the file must equal the generator's output."""
import subprocess
import sys

wanted = subprocess.run([sys.executable, sys.argv[1]], check=True, stdout=subprocess.PIPE).stdout
with open(sys.argv[2], "rb") as file:
    found = file.read()
if not wanted or wanted != found:
    print(f"{sys.argv[2]} differs from the output of {sys.argv[1]}")
    sys.exit(1)
