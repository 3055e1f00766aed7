#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# test_install.sh <build folder>: installs into a temporary prefix, and builds and runs programs
# with that installation, as a user would: through find_package and through pkg-config, in C and in
# C++, with the shared, the static and the instrumented library, and with the debug library, which
# must detect mistakes of operations' authors. Prints the number of programs.
set -eu
build=$(cd "$1" && pwd)
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix"
libdir=$(dirname "$(find "$prefix" -name liblladd.a)")
test -f "$libdir/liblladd.so"
test -z "$(find "$prefix" -name '*_private.h' -o -name '*_format.h')"
# Linking with an archive must not optimise the library again.
for archive in "$libdir"/liblladd*.a; do
    if readelf --wide --sections "$archive" | grep -q '\.gnu\.lto_'; then
        echo "$archive holds intermediate code"
        exit 1
    fi
done

# A program in each language that uses several layers; the C program is the example.
mkdir "$work/src"
cp "$source/examples/counter.c" "$work/src/c_program.c"
# The C++ program uses structs without the word "struct", and the functions that fill them.
cat > "$work/src/cxx_program.cc" << 'END'
#include <lladd/ctable.h>
#include <lladd/device.h>
#include <lladd/dtable_managed.h>
#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/heap.h>
#include <lladd/inspect.h>
#include <lladd/lladd.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sim_contract.h>
#include <lladd/stats.h>
#include <cstring>
static int put(lladd_db *db, lladd_error *error)
{
    lladd_hash *hash = nullptr;
    lladd_heap *heap = nullptr;
    lladd_heap_cursor cursor{};
    lladd_record record{};
    lladd_rid rid{};
    lladd_managed *rows = nullptr;
    lladd_txn *txn = nullptr;
    lladd_pageno root, page, of_heap;
    lladd_txn_now now{};
    lladd_page_use use = LLADD_USE_NONE;
    lladd_managed_options options = LLADD_MANAGED_OPTIONS_INIT;
    options.type = LLADD_DTABLE_STRING;
    lladd_dtable_key key = lladd_dtable_string("k");
    lladd_dtable_value value = lladd_dtable_value_of("v", 1);
    if (lladd_managed_create_open(db, "rows", &options, &rows, error) ||
        lladd_begin(db, nullptr, &txn, error) || lladd_hash_create(txn, nullptr, &root) ||
        lladd_page_alloc(txn, &page) || lladd_heap_create_open(txn, &of_heap, &heap) ||
        lladd_heap_insert(txn, heap, "v", 1, &rid) || lladd_managed_put(txn, rows, &key, &value) ||
        lladd_txn_now_get(txn, &now) || lladd_commit(txn) || now.rolling_back ||
        lladd_page_use_get(db, page, &use, error) || use != LLADD_USE_PAGED ||
        lladd_hash_open(db, root, 0, &hash, error))
        return 1;
    lladd_heap_cursor_open(heap, &cursor);
    if (lladd_heap_cursor_next(&cursor, &rid, &record, error) || record.len != 1)
        return 4;
    lladd_heap_cursor_close(&cursor);
    lladd_heap_close(heap);
    lladd_hash_stats of_hash{};
    of_hash.struct_size = sizeof of_hash;
    lladd_managed_stats of_rows{};
    of_rows.struct_size = sizeof(lladd_managed_stats);
    lladd_dtable_cache_stats of_cache{};
    of_cache.struct_size = sizeof of_cache;
    lladd_lock_stats of_locks{};
    of_locks.struct_size = sizeof of_locks;
    lladd_stats all{};
    all.struct_size = sizeof(struct lladd_stats);
    if (lladd_hash_stats_get(hash, &of_hash, error) || of_hash.buckets == 0 ||
        lladd_stats_get(db, &all) ||
        lladd_managed_stats_get(rows, &of_rows, nullptr, 0, error) || of_rows.pending_rows != 1 ||
        lladd_lock_stats_get(db, &of_locks, error) || of_locks.waiting || all.log_records == 0)
        return 2;
    lladd_dtable_cache_stats_get(db, &of_cache);
    lladd_hash_close(hash);
    return of_cache.limit == 0 || lladd_managed_close(rows, error) ? 3 : 0;
}
static int look(const lladd_options *options, lladd_error *error)
{
    lladd_inspect *view = nullptr;
    lladd_inspect_info info{};
    lladd_inspect_page page;
    info.struct_size = sizeof info;
    if (lladd_inspect_open(nullptr, options, &view, error) || lladd_inspect_info_get(view, &info) ||
        lladd_inspect_page_read(view, lladd_page_of(0), &page, error))
        return 1;
    lladd_inspect_close(view);
    return info.clean && info.pages && !page.code ? 0 : 2;
}
// Every option struct is initialised by its macro, with no warning.
static bool inits()
{
    lladd_txn_options txn = LLADD_TXN_OPTIONS_INIT;
    lladd_hash_options hash = LLADD_HASH_OPTIONS_INIT;
    lladd_lock_options lock = LLADD_LOCK_OPTIONS_INIT;
    lladd_dtable_run_options run = LLADD_DTABLE_RUN_OPTIONS_INIT;
    lladd_ctable_options table = LLADD_CTABLE_OPTIONS_INIT;
    lladd_sim_contract contract = LLADD_SIM_CONTRACT_INIT;
    lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    return txn.struct_size == sizeof txn && hash.struct_size == sizeof hash && !txn.read_only &&
           lock.struct_size == sizeof lock && run.struct_size == sizeof run &&
           table.struct_size == sizeof table && contract.struct_size == sizeof contract &&
           table.managed.struct_size == sizeof table.managed && pin.db_ == nullptr;
}
int main()
{
    lladd_device *device = nullptr;
    if (!inits())
        return 7;
    if (lladd_device_memory(&device) != 0)
        return 1;
    lladd_options options = LLADD_OPTIONS_INIT;
    options.device = device;
    lladd_db *db = nullptr;
    lladd_error error = LLADD_ERROR_INIT;
    if (lladd_lock_register(&options, &error) || lladd_managed_register(&options, &error) ||
        lladd_open(nullptr, &options, &db, &error) != 0)
        return 2;
    int rc = put(db, &error);
    if (rc)
        return 10 + rc;
    if (lladd_close(db) != 0)
        return 3;
    rc = look(&options, &error);
    if (rc)
        return 20 + rc;
    lladd_options_release(&options);
    lladd_device_close(device);
    if (lladd_error_set(&error, LLADD_BUSY, "%d", 5) != LLADD_BUSY || error.line == 0)
        return 5;
    if ((lladd_error_set)(&error, LLADD_BUSY, "%d", 6) != LLADD_BUSY || error.line != 0)
        return 6;
    return std::strcmp(lladd_code_name(LLADD_BUSY), "LLADD_BUSY") == 0 ? 0 : 4;
}
END
# A program that explores crashes, if the simulator was built.
cat > "$work/src/sim_program.c" << 'END'
#include <lladd/sim.h>
int main(void)
{
    struct lladd_sim_bounds bounds = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error error = LLADD_ERROR_INIT;
    struct lladd_sim_report *report;
    bounds.depth = 1;
    bounds.flags = LLADD_SIM_NO_COVERAGE;
    if (lladd_sim_explore(lladd_sim_subject_find("small"), &bounds, &report, &error) != 0)
        return 1;
    int bad = report->n_failures > 0 || !report->complete || report->states < 100;
    lladd_sim_report_free(report);
    return bad;
}
END
# A subject in a shared object, for the simulator's program.
cat > "$work/src/subject.c" << 'END'
#include <lladd/sim.h>
const struct lladd_sim_subject *const *lladd_sim_plugin(void);
const struct lladd_sim_subject *const *lladd_sim_plugin(void)
{
    static const struct lladd_sim_subject *all[2];
    all[0] = lladd_sim_subject_find("small");
    return all;
}
END
# A program that makes a backup and restores it.
cat > "$work/src/ship_program.c" << 'END'
#include <lladd/device.h>
#include <lladd/lladd.h>
#include <lladd/ship.h>
int main(void)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_device *copy;
    struct lladd_store *store;
    struct lladd_db *db;
    if (lladd_device_memory(&options.device) || lladd_device_memory(&copy) ||
        lladd_open(NULL, &options, &db, NULL) ||
        lladd_store_open("dir:store", NULL, &store, NULL))
        return 1;
    if (lladd_backup(db, store, NULL, NULL, NULL) ||
        lladd_restore(store, NULL, copy, NULL, NULL))
        return 2;
    lladd_store_close(store);
    if (lladd_close(db))
        return 3;
    options.flags = LLADD_OPT_MUST_EXIST;
    lladd_device_close(options.device);
    options.device = copy;
    if (lladd_open(NULL, &options, &db, NULL) || lladd_close(db))
        return 4;
    lladd_device_close(copy);
    return 0;
}
END
# A program that is its own transaction manager, with the standard's header.
cat > "$work/src/xa_program.c" << 'END'
#include <lladd/device.h>
#include <lladd/pages.h>
#include <lladd/xa.h>
#include <xa.h>
int main(void)
{
    struct lladd_device *device;
    struct lladd_options options = LLADD_OPTIONS_INIT;
    XID xid = {5, 1, 1, "gb"};
    lladd_pageno page;
    char info[] = "create=yes";
    if (lladd_device_memory(&device) != 0)
        return 1;
    options.device = device;
    if (lladd_xa_options(1, &options) != 0 ||
        lladd_xa_switch.xa_open_entry(info, 1, TMNOFLAGS) != XA_OK)
        return 2;
    if (lladd_xa_switch.xa_start_entry(&xid, 1, TMNOFLAGS) != XA_OK ||
        lladd_page_alloc(lladd_xa_txn(1), &page) != 0 ||
        lladd_xa_switch.xa_end_entry(&xid, 1, TMSUCCESS) != XA_OK)
        return 3;
    if (lladd_xa_switch.xa_prepare_entry(&xid, 1, TMNOFLAGS) != XA_OK ||
        lladd_xa_switch.xa_commit_entry(&xid, 1, TMNOFLAGS) != XA_OK ||
        lladd_xa_switch.xa_close_entry(info, 1, TMNOFLAGS) != XA_OK)
        return 4;
    lladd_device_close(device);
    return 0;
}
END
cat > "$work/src/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.22)
project(consumer C CXX)
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_STANDARD 17)
find_package(lladd 0.1 REQUIRED)
foreach(language c cxx)
    file(GLOB source ${language}_program.*)
    foreach(kind lladd static dst debug debug_static)
        if(NOT TARGET lladd::${kind})
            continue()
        endif()
        add_executable(${language}_${kind} ${source})
        target_link_libraries(${language}_${kind} PRIVATE lladd::${kind})
    endforeach()
endforeach()
if(TARGET lladd::xa)
    add_executable(xa xa_program.c)
    target_link_libraries(xa PRIVATE lladd::xa)
endif()
foreach(kind ship ship_static)
    if(TARGET lladd::${kind})
        add_executable(${kind} ship_program.c)
        target_link_libraries(${kind} PRIVATE lladd::${kind})
    endif()
endforeach()
if(TARGET lladd::sim)
    add_executable(sim sim_program.c)
    target_link_libraries(sim PRIVATE lladd::sim)
endif()
END
cmake -S "$work/src" -B "$work/cmake" "-DCMAKE_PREFIX_PATH=$prefix"
cmake --build "$work/cmake" -j "$(nproc)"
# A missing component must be reported by name.
mkdir "$work/wants"
cat > "$work/wants/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.22)
project(wants C)
find_package(lladd REQUIRED COMPONENTS ${wanted})
END
wants() { cmake -S "$work/wants" -B "$work/wants/b" "-DCMAKE_PREFIX_PATH=$prefix" "-Dwanted=$1"; }
wants static
if wants nonsense > "$work/said" 2>&1 || ! grep -q nonsense "$work/said"; then
    echo "find_package accepts the component nonsense, which does not exist"
    exit 1
fi

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
mkdir "$work/pc"
flags=$(pkg-config --cflags --libs lladd)
# Only liblladd.a is linked statically, not the C library.
static=$(pkg-config --cflags --static --libs lladd | sed 's/-llladd/-l:liblladd.a/')
# Unquoted: a list of flags.
cc -std=gnu11 -o "$work/pc/c_lladd" "$work/src/c_program.c" $flags
cc -std=gnu11 -o "$work/pc/c_static" "$work/src/c_program.c" $static
c++ -std=c++17 -Wall -Wextra -Werror -o "$work/pc/cxx_lladd" "$work/src/cxx_program.cc" $flags
c++ -std=c++17 -o "$work/pc/cxx_static" "$work/src/cxx_program.cc" $static

if test -f "$libdir/liblladd_sim.a"; then
    cc -std=gnu11 -o "$work/pc/sim" "$work/src/sim_program.c" \
        $(pkg-config --cflags --libs lladd-sim)
    # Without the library: the program that loads the object contains it.
    cc -std=gnu11 -shared -fPIC $(pkg-config --cflags lladd-sim) -o "$work/subject.so" \
        "$work/src/subject.c"
    "$prefix/bin/lladd-sim" --depth 1 --no-coverage "$work/subject.so"
fi
# Mistakes of an operation's author, with each library.
"$source/cmake/test_misuse.sh" release "$libdir" $(pkg-config --cflags --libs lladd)
if test -f "$libdir/liblladd-debug.so"; then
    wants debug
    cc -std=gnu11 -o "$work/pc/c_debug" "$work/src/c_program.c" \
        $(pkg-config --cflags --libs lladd-debug)
    "$source/cmake/test_misuse.sh" debug "$libdir" $(pkg-config --cflags --libs lladd-debug)
elif wants debug > "$work/said" 2>&1; then
    echo "find_package accepts the component debug, which was not installed"
    exit 1
fi
# The plug-in of docs/extensions.md.
if test -x "$prefix/bin/lladd"; then
    mkdir "$work/ordered"
    cp "$source"/examples/ordered/*.[ch] "$work/ordered"
    (cd "$work/ordered" &&
        sed -n '/^cc -shared .* -o ordered-ops.so /p' "$source/docs/extensions.md" > build &&
        test -s build && sh -ec "$(cat build)" && test -f ordered-ops.so)
    "$prefix/bin/lladd" hash put --create "$work/db" t k v
    "$prefix/bin/lladd" verify --ops "$work/ordered/ordered-ops.so" "$work/db"
fi
cc -std=gnu11 -o "$work/pc/xa" "$work/src/xa_program.c" $(pkg-config --cflags --libs lladd-xa)
cc -std=gnu11 -o "$work/pc/ship" "$work/src/ship_program.c" $(pkg-config --cflags --libs lladd-ship)

count=0
for program in "$work/cmake"/c_lladd "$work/cmake"/c_static "$work/cmake"/c_dst \
    "$work/cmake"/cxx_lladd "$work/cmake"/cxx_static "$work/cmake"/cxx_dst \
    "$work/cmake"/c_debug "$work/cmake"/c_debug_static "$work/cmake"/cxx_debug \
    "$work/cmake"/cxx_debug_static "$work/cmake"/sim \
    "$work/cmake"/ship "$work/cmake"/ship_static "$work/cmake"/xa "$work/pc"/*; do
    test -e "$program" || continue
    mkdir "$work/run"
    (cd "$work/run" && LD_LIBRARY_PATH=$libdir "$program")
    rm -rf "$work/run"
    count=$((count + 1))
done
echo "$count programs built and run"
