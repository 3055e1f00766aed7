#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Renders docs/pictures/*.dot to .svg beside them. The pictures are committed, so that a reader
# needs no Graphviz; tests/docs/pages.py checks that they have the sources' labels.
set -eu
cd "$(dirname "$0")/../pictures"
for dot in *.dot; do
    dot -Tsvg "$dot" -o "${dot%.dot}.svg"
done
