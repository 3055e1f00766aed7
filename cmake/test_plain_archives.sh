#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# test_plain_archives.sh <cmake> <gcc> <objcopy>: plain_archives.cmake removes the intermediate code
# of an archive, and a program can still be linked with the archive.
set -eu
source=$(cd "$(dirname "$0")" && pwd)
cmake=$1 compiler=$2 objcopy=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$work/lib/liblladd.a

has_intermediate_code() { readelf --wide --sections "$archive" | grep -q '\.gnu\.lto_'; }

mkdir "$work/lib"
echo 'int seven(void) { return 7; }' > "$work/seven.c"
echo 'int seven(void); int main(void) { return seven() != 7; }' > "$work/main.c"
"$compiler" -O2 -flto -ffat-lto-objects -c -o "$work/seven.o" "$work/seven.c"
ar qc "$archive" "$work/seven.o"
if ! has_intermediate_code; then
    echo "$compiler writes no intermediate code: there is nothing to remove"
    exit 1
fi
"$cmake" "-DCMAKE_INSTALL_PREFIX=$work" -Dlibdir=lib "-Dobjcopy=$objcopy" \
    -P "$source/plain_archives.cmake"
if has_intermediate_code; then
    echo "plain_archives.cmake leaves intermediate code in the archive"
    exit 1
fi
"$compiler" -o "$work/main" "$work/main.c" "$archive"
"$work/main"
