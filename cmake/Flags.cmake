# SPDX-License-Identifier: BSD-2-Clause
#
# ll_flags: an interface target with the language level, warnings and instrumentation of everything
# that is built here. It is not installed: programs that use the library have their own flags.
include(CheckCCompilerFlag)

add_library(ll_flags INTERFACE)
target_compile_features(ll_flags INTERFACE c_std_11)
set(CMAKE_C_EXTENSIONS ON) # gnu11: futex and OFD-lock calls are GNU/Linux
set(CMAKE_CXX_EXTENSIONS OFF)

target_compile_options(ll_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    $<$<BOOL:${LLADD_WERROR}>:-Werror>
    # Errors contain the source file that set them; it must be "log/append.c" on every machine.
    -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
target_compile_definitions(ll_flags INTERFACE
    _GNU_SOURCE
    $<$<EQUAL:${CMAKE_SIZEOF_VOID_P},4>:_FILE_OFFSET_BITS=64>
    $<$<BOOL:${LLADD_DEBUG}>:LLADD_DEBUG=1>)

if(LLADD_SANITIZE)
    set(ll_sanitize -fsanitize=${LLADD_SANITIZE} -fno-sanitize-recover=all
        -fno-omit-frame-pointer)
    target_compile_options(ll_flags INTERFACE ${ll_sanitize})
    target_link_options(ll_flags INTERFACE ${ll_sanitize})
    # TSan does not support fences, and gcc warns of that. The library's fences order atomic words
    # only, for which TSan reports nothing anyway.
    check_c_compiler_flag(-Wtsan ll_have_wtsan)
    if(ll_have_wtsan)
        target_compile_options(ll_flags INTERFACE -Wno-tsan)
    endif()
    # Instrumented code causes false warnings of gcc's data-flow analysis; the other builds warn.
    check_c_compiler_flag(-Wmaybe-uninitialized ll_have_wmaybe)
    if(ll_have_wmaybe)
        target_compile_options(ll_flags INTERFACE -Wno-maybe-uninitialized)
    endif()
endif()
if(LLADD_COVERAGE)
    # Atomic counters lose no count when several threads execute a line.
    target_compile_options(ll_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(ll_flags INTERFACE --coverage)
endif()

# Flags for the library only. Calls between the library's public functions are direct calls: no
# program may interpose single functions of the library.
add_library(ll_library_flags INTERFACE)
check_c_compiler_flag(-fno-semantic-interposition ll_have_no_interposition)
target_compile_options(ll_library_flags INTERFACE
    -fvisibility=hidden
    $<$<BOOL:${ll_have_no_interposition}>:-fno-semantic-interposition>)

# Flags for the layers only, not for the simulator: an application's threads may have stacks of
# 16 KiB (PTHREAD_STACK_MIN). Instrumented code has larger frames, so it is exempt.
add_library(ll_layer_flags INTERFACE)
check_c_compiler_flag(-Wframe-larger-than=5120 ll_have_wframe)
if(ll_have_wframe AND NOT LLADD_SANITIZE AND NOT LLADD_COVERAGE)
    target_compile_options(ll_layer_flags INTERFACE -Wframe-larger-than=5120)
endif()

set(ll_ipo OFF)
if(LLADD_IPO)
    include(CheckIPOSupported)
    check_ipo_supported(RESULT ll_ipo OUTPUT ll_ipo_why LANGUAGES C)
    if(NOT ll_ipo)
        message(STATUS "No link-time optimisation: ${ll_ipo_why}")
    elseif(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # Fat objects: the static library must also link with a compiler that cannot read this
        # compiler's intermediate code.
        set(CMAKE_C_COMPILE_OPTIONS_IPO -flto=auto -ffat-lto-objects)
    endif()
endif()

# Optimising the whole library again for each of a hundred tests, examples and fuzzers takes longer
# than running them. The shipped programs and the benchmarks test the library as optimised across
# files. The objects contain machine code and intermediate code.
function(ll_link_plainly target)
    if(ll_ipo AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_link_options(${target} PRIVATE -fno-lto)
    endif()
endfunction()
