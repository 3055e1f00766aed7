# SPDX-License-Identifier: BSD-2-Clause
#
# ll_test(NAME test_x SOURCES test_x.c... [LAYERS util io...] [LIBRARY | DST] [SEES log...]
#         [FIXTURES core...] [LIBS ...] [LABELS slow...] [ARGS ...] [TSAN_CASE threads])
#
# Defines a Check program, which is <folder>/<name> in ctest. It is linked with the objects of
# LAYERS only (with LIBRARY: with the whole static library; with DST: with the instrumented one). It
# may include the headers of those layers and of SEES, the public headers, "support/...", and the
# headers of the folders FIXTURES, and is linked with their fixtures (ll_fixtures).
#
# Labels (default: quick): quick (takes a second or two; `runtests --quick` runs these), slow,
# nightly (not run by default), threads (also run under TSan), asan (run under AddressSanitizer in
# addition to the quick tests). TSAN_CASE names the only test case that starts threads: the others
# would show TSan nothing. A test that AddressSanitizer does not run by default gets the label
# debug.
#
# When cross-compiling, only the program that does not need Check is built: crash/.
if(NOT CMAKE_CROSSCOMPILING)
    pkg_check_modules(check REQUIRED IMPORTED_TARGET check)
endif()
pkg_check_modules(jansson QUIET IMPORTED_TARGET jansson)

# With another C library (musl) the system's Check is linked statically, with the parts of glibc
# that it needs.
set(ll_test_more_sources)
set(ll_check PkgConfig::check)
if(NOT ll_have_glibc AND NOT CMAKE_CROSSCOMPILING)
    find_library(LL_CHECK NAMES check_pic check HINTS ${check_LIBDIR} REQUIRED)
    find_library(LL_SUBUNIT subunit HINTS ${check_LIBDIR} REQUIRED)
    set(ll_check ${LL_CHECK} ${LL_SUBUNIT})
    list(APPEND ll_test_more_sources ${CMAKE_SOURCE_DIR}/tests/support/other_libc/glibc_names.c)
endif()

# Builds only the tests that run under TSan; the others would take most of that build's time.
add_custom_target(thread_tests)

# Tests that search a space search only a part of it in an instrumented build, which is ten times
# slower, and by default.
set(ll_test_definitions)
if(LLADD_SANITIZE OR LLADD_COVERAGE OR LLADD_TESTS_SHORT)
    set(ll_test_definitions LL_TEST_SHORT=1)
endif()

# ll_fixtures(SOURCES db_fixture.c... [LIBRARY] [SEES log...] [FIXTURES core...]): an archive of the
# sources that several tests of this folder or of others share, so that they are compiled once.
# With LIBRARY the sources call the library. Tests with DST cannot use the archive, and compile such
# sources themselves.
function(ll_fixtures)
    cmake_parse_arguments(F "LIBRARY" "" "SOURCES;SEES;FIXTURES" ${ARGN})
    get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    set(target ${folder}_fixtures)
    add_library(${target} STATIC ${F_SOURCES})
    list(TRANSFORM F_FIXTURES APPEND _fixtures)
    target_link_libraries(${target} PRIVATE ll_flags PUBLIC ${F_FIXTURES} ll_test_support)
    if(F_LIBRARY)
        target_link_libraries(${target} PUBLIC lladd_static)
    endif()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_compile_definitions(${target} PRIVATE ${ll_test_definitions})
    target_include_directories(${target} INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
    ll_see(${target} PRIVATE public support ${F_SEES})
endfunction()

# Sets `out` to all labels of a test in this folder. The build with AddressSanitizer has neither
# benchmarks nor the simulator, and does not repeat checks of the sources.
function(ll__all_labels out labels)
    if(NOT labels)
        set(labels quick)
    endif()
    get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    if(folder MATCHES "^(bench|docs|interop|sim|tidy)$" OR labels MATCHES "once"
       OR NOT labels MATCHES "quick|asan")
        list(APPEND labels debug)
    endif()
    set(${out} "${labels}" PARENT_SCOPE)
endfunction()

# Excludes a test from the target `all` if the test has none of LLADD_TEST_LABELS.
function(ll__build_if_wanted target labels)
    if(NOT LLADD_TEST_LABELS)
        return()
    endif()
    ll__all_labels(labels "${labels}")
    foreach(label IN LISTS labels)
        if(label IN_LIST LLADD_TEST_LABELS)
            return()
        endif()
    endforeach()
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
endfunction()

function(ll_test)
    cmake_parse_arguments(T "LIBRARY;DST" "NAME;TSAN_CASE"
        "SOURCES;LAYERS;SEES;FIXTURES;LIBS;LABELS;ARGS" ${ARGN})
    get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    set(target ${folder}-${T_NAME})
    foreach(layer IN LISTS T_LAYERS)
        if(NOT TARGET ll_${layer})
            message(FATAL_ERROR "${folder}/${T_NAME}: there is no layer ${layer}")
        endif()
    endforeach()
    if(T_LIBRARY AND NOT TARGET ll_db)
        message(FATAL_ERROR "${folder}/${T_NAME}: there is no library")
    endif()

    # A missing source must not keep the other tests from being built; for runtests a warning is a
    # failure.
    foreach(source IN LISTS T_SOURCES)
        if(NOT IS_ABSOLUTE ${source} AND NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
            message(WARNING "${folder}/${T_NAME}: there is no ${source}; not built")
            return()
        endif()
    endforeach()
    add_executable(${target} ${T_SOURCES} ${ll_test_more_sources})
    ll__build_if_wanted(${target} "${T_LABELS}")
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${T_NAME}
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder})
    foreach(layer IN LISTS T_LAYERS)
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:ll_${layer}>)
        get_property(libs GLOBAL PROPERTY LL_LIBS_${layer})
        target_link_libraries(${target} PRIVATE ${libs})
    endforeach()
    if(T_LIBRARY)
        target_link_libraries(${target} PRIVATE lladd_static)
    endif()
    if(T_DST)
        target_link_libraries(${target} PRIVATE lladd_dst)
    endif()
    # Tests are not optimised: compiling them takes as long as compiling the library.
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    list(TRANSFORM T_FIXTURES APPEND _fixtures)
    target_link_libraries(${target} PRIVATE
        ll_flags ${T_FIXTURES} ll_test_support ${ll_check} Threads::Threads ${T_LIBS})
    # support/check_hooks.c has the wrappers.
    target_link_options(${target} PRIVATE -Wl,--wrap=_mark_point -Wl,--wrap=tcase_create)
    ll_link_plainly(${target})
    target_compile_definitions(${target} PRIVATE ${ll_test_definitions})
    ll_see(${target} PRIVATE public support ${T_LAYERS} ${T_SEES})

    add_test(NAME ${folder}/${T_NAME} COMMAND ${target} ${T_ARGS})
    ll_test_properties(${folder}/${T_NAME} "${T_LABELS}")
    if(T_TSAN_CASE AND "${LLADD_SANITIZE}" MATCHES "thread")
        set_property(TEST ${folder}/${T_NAME} APPEND PROPERTY ENVIRONMENT
            CK_RUN_CASE=${T_TSAN_CASE})
    endif()
    if("threads" IN_LIST T_LABELS)
        add_dependencies(thread_tests ${target})
    endif()
endfunction()

# ll_test_at_night(<folder> <name>): adds the test again as <name>_long with LLADD_NIGHTLY set,
# which makes the test longer. One build of the nightly run runs it.
function(ll_test_at_night folder name)
    if(NOT TARGET ${folder}-${name})
        return()
    endif()
    set(test ${folder}/${name}_long)
    add_test(NAME ${test} COMMAND ${folder}-${name})
    ll_test_properties(${test} "nightly;once")
    set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT LLADD_NIGHTLY=1)
endfunction()

# Sets labels, time limit and environment of a ctest test, also for tests that are scripts. The
# limit is only for tests that hang: machines are shared and slow, and no test asserts a time. Check
# gets half of the limit for each case, so that it can name a case that hangs
# (support/check_hooks.c).
function(ll_test_properties test labels)
    ll__all_labels(labels "${labels}")
    set(timeout 3600)
    if(labels MATCHES "nightly")
        set(timeout 28800)
    endif()
    # Under a sanitizer Check runs every case in one process: a forked child would copy the shadow
    # memory, and TSan does not support threads in a forked child. In other builds Check forks, so
    # that a crash does not hide the cases after it.
    math(EXPR half "${timeout} / 2")
    set(environment LLADD_TEST_BUILD=${CMAKE_BINARY_DIR} CK_DEFAULT_TIMEOUT=${half})
    if(LLADD_SANITIZE)
        set(supp ${CMAKE_SOURCE_DIR}/tests/tsan.supp)
        list(APPEND environment CK_FORK=no
            "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=${supp}"
            "ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1"
            "UBSAN_OPTIONS=print_stacktrace=1")
    endif()
    # Long tests first: a long test that is started last leaves the other processors idle.
    set(cost 1)
    if(labels MATCHES "slow|nightly")
        set(cost 100)
    endif()
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout}
        COST ${cost} SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
endfunction()

# Runs each fuzzer briefly, on its corpus and on inputs derived from it with a fixed seed. -names: a
# good input of the corpus must not be refused at the first check.
get_property(ll_fuzzers GLOBAL PROPERTY LL_FUZZERS)
foreach(fuzzer IN LISTS ll_fuzzers)
    set(corpus ${CMAKE_SOURCE_DIR}/fuzz/corpus/${fuzzer})
    if(NOT EXISTS ${corpus})
        set(corpus)
    endif()
    add_test(NAME fuzz/${fuzzer} COMMAND ${fuzzer} -runs=500 -max_total_time=10 -seed=1 -names=1
        -artifact_prefix=${CMAKE_BINARY_DIR}/fuzz/ ${corpus})
    ll_test_properties(fuzz/${fuzzer} "quick")
endforeach()
