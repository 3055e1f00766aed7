# SPDX-License-Identifier: BSD-2-Clause
#
# ll_flags: an interface target with the language level, warnings and instrumentation of everything
# that is built here. It is not installed: who uses the library brings flags of his own.
include(CheckCCompilerFlag)

add_library(ll_flags INTERFACE)
target_compile_features(ll_flags INTERFACE c_std_11)
set(CMAKE_C_EXTENSIONS ON) # gnu11: futex and OFD-lock calls are GNU/Linux
set(CMAKE_CXX_EXTENSIONS OFF)

target_compile_options(ll_flags INTERFACE
    -Wall -Wextra -Wshadow -Wconversion
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
    $<$<BOOL:${LLADD_WERROR}>:-Werror>
    # Errors carry the file they were born in; it shall read "log/append.c" on every machine.
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
    # TSan does not see fences. Ours order atomic words only, of which it reports nothing anyway.
    check_c_compiler_flag(-Wtsan ll_have_wtsan)
    if(ll_have_wtsan)
        target_compile_options(ll_flags INTERFACE -Wno-tsan)
    endif()
    # Instrumented code confuses what gcc believes about the flow of values; the other builds ask.
    check_c_compiler_flag(-Wmaybe-uninitialized ll_have_wmaybe)
    if(ll_have_wmaybe)
        target_compile_options(ll_flags INTERFACE -Wno-maybe-uninitialized)
    endif()
endif()
if(LLADD_COVERAGE)
    target_compile_options(ll_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(ll_flags INTERFACE --coverage)
endif()

# What only the library is compiled with. Calls between our own public functions shall be direct
# calls: nobody interposes half a database.
add_library(ll_library_flags INTERFACE)
check_c_compiler_flag(-fno-semantic-interposition ll_have_no_interposition)
target_compile_options(ll_library_flags INTERFACE
    -fvisibility=hidden
    $<$<BOOL:${ll_have_no_interposition}>:-fno-semantic-interposition>)

# What only the layers are compiled with, and not the simulator: an application's threads may have
# stacks of 16 KiB (PTHREAD_STACK_MIN). What instruments code makes frames longer.
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
        # Fat objects: the installed static library must also link where another compiler, or none
        # that can read this one's intermediate code, does the linking.
        set(CMAKE_C_COMPILE_OPTIONS_IPO -flto=auto -ffat-lto-objects)
    endif()
endif()

# Optimising the whole library once more for each of a hundred tests, examples and fuzzers takes
# longer than all they do; that it holds together when optimised across files is seen in what is
# shipped and what measures. The objects carry both kinds of code.
function(ll_link_plainly target)
    if(ll_ipo AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
        target_link_options(${target} PRIVATE -fno-lto)
    endif()
endfunction()
