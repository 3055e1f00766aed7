# SPDX-License-Identifier: BSD-2-Clause
#
# tools/, examples/, bench/ and fuzz/. A folder with a CMakeLists.txt of its own is left to it; one
# without sources is passed over.

# ll_program(<target> SOURCES ... [SEES <layer>...] [LIBS ...]): a program that is linked with the
# whole library, statically. SEES adds layers whose headers it may include besides the public ones.
function(ll_program target)
    cmake_parse_arguments(P "" "OUTPUT_NAME" "SOURCES;SEES;LIBS" ${ARGN})
    add_executable(${target} ${P_SOURCES})
    target_link_libraries(${target} PRIVATE ll_flags lladd_static ${P_LIBS})
    ll_see(${target} PRIVATE ${P_SEES})
    set_target_properties(${target} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ${ll_ipo})
    if(P_OUTPUT_NAME)
        set_target_properties(${target} PROPERTIES OUTPUT_NAME ${P_OUTPUT_NAME})
    endif()
endfunction()

# Every layer's headers; what reads stored bytes without the library's help needs them.
set(LL_ALL_LAYERS util io log buffer recovery operations)

# The layers whose objects are all there; programs wait for the assembly.
if(NOT TARGET ll_lladd OR NOT TARGET lladd_static)
    message(STATUS "No assembly layer yet: no tools, examples, benches, fuzzers")
    return()
endif()

# examples/<name>/*.c: an example of several files, built as its own CMakeLists.txt says if it has
# one.
function(ll__example_folders)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/examples/*/*.c)
    set(folders ${sources})
    list(TRANSFORM folders REPLACE "/[^/]*$" "")
    list(REMOVE_DUPLICATES folders)
    foreach(dir IN LISTS folders)
        get_filename_component(name ${dir} NAME)
        if(EXISTS ${dir}/CMakeLists.txt)
            add_subdirectory(${dir} ${CMAKE_BINARY_DIR}/examples/${name}-build)
            continue()
        endif()
        set(own ${sources})
        list(FILTER own INCLUDE REGEX "/examples/${name}/[^/]*$")
        ll_program(example-${name} SOURCES ${own} OUTPUT_NAME ${name})
        set_target_properties(example-${name} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/examples)
    endforeach()
endfunction()

function(ll__folder folder)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${folder}/CMakeLists.txt)
        add_subdirectory(${folder})
        return()
    endif()
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.c)
    if(NOT sources)
        return()
    endif()
    # bench/common*.c belongs to each bench, standalone_main.c to each fuzzer.
    set(shared ${sources})
    list(FILTER shared INCLUDE REGEX "/(common[^/]*|standalone_main)\\.c$")
    list(FILTER sources EXCLUDE REGEX "/(common[^/]*|standalone_main)\\.c$")
    foreach(source IN LISTS sources)
        get_filename_component(name ${source} NAME_WE)
        if(folder STREQUAL "examples")
            ll_program(example-${name} SOURCES ${source} OUTPUT_NAME ${name})
            set(target example-${name})
        elseif(folder STREQUAL "bench")
            ll_program(bench-${name} SOURCES ${source} ${shared} SEES ${LL_ALL_LAYERS})
            set(target bench-${name})
        elseif(LLADD_LIBFUZZER)
            ll_program(${name} SOURCES ${source} SEES ${LL_ALL_LAYERS})
            target_link_options(${name} PRIVATE -fsanitize=fuzzer)
            set(target ${name})
        else()
            ll_program(${name} SOURCES ${source} ${shared} SEES ${LL_ALL_LAYERS})
            set(target ${name})
            set_property(GLOBAL APPEND PROPERTY LL_FUZZERS ${name})
        endif()
        set_target_properties(${target} PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
    endforeach()
endfunction()

if(LLADD_LIBFUZZER)
    foreach(layer IN LISTS LL_ALL_LAYERS ITEMS lladd)
        if(TARGET ll_${layer})
            target_compile_options(ll_${layer} PRIVATE -fsanitize=fuzzer-no-link)
        endif()
    endforeach()
endif()
if(LLADD_TOOLS)
    ll__folder(tools)
    ll__folder(examples)
    ll__example_folders()
    ll__folder(bench)
endif()
if(LLADD_TESTS OR LLADD_LIBFUZZER)
    ll__folder(fuzz)
endif()
