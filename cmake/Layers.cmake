# SPDX-License-Identifier: BSD-2-Clause
#
# Layers, and how the build keeps them apart.
#
# Across folders a header is included by its full name, "log/log.h" or <lladd/types.h>. No include
# path points at the source tree itself. Instead <build>/layers/<x>/ holds one symbolic link
# <x> -> <source>/<x>, and <build>/layers/public/ one named lladd. A layer is compiled with the
# directories of only those layers that it lists, so it cannot include any other header.
# Permission is not inherited: log may use io, but a layer that may use log may not thereby use io.

set(LL_LAYERS_DIR ${CMAKE_BINARY_DIR}/layers)

# ll_dst: is every layer compiled a second time, instrumented for simulation? TSan does not know the
# instrumented library's fibers. Fuzzing and coverage use the ordinary library. The simulator
# calculates with 128-bit integers, which builds for 32 bits lack, and its fibers need glibc's
# contexts, which musl lacks. In all these cases ll_dst is OFF.
include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h ll_have_glibc)
set(ll_dst ${LLADD_STATIC})
if(NOT LLADD_SIMULATOR OR NOT ll_have_glibc OR CMAKE_SIZEOF_VOID_P EQUAL 4
   OR "${LLADD_SANITIZE}" MATCHES "thread" OR LLADD_LIBFUZZER OR LLADD_COVERAGE)
    set(ll_dst OFF)
endif()

# A debug build's simulations run for minutes; -O1 compiles as fast as -Og.
set(ll_sim_optimise $<$<CONFIG:Debug>:-O1>)

# Is every layer also compiled for liblladd-debug? A debug build has these objects already.
set(ll_debug_too OFF)
if(LLADD_INSTALL_DEBUG AND NOT LLADD_DEBUG)
    set(ll_debug_too ON)
endif()

function(ll__link target link)
    get_filename_component(dir ${link} DIRECTORY)
    file(MAKE_DIRECTORY ${dir})
    file(CREATE_LINK ${target} ${link} SYMBOLIC)
endfunction()

ll__link(${CMAKE_SOURCE_DIR}/lladd ${LL_LAYERS_DIR}/public/lladd)

# ll_see(<target> <visibility> <layer>...): the target may include these layers' headers.
function(ll_see target visibility)
    foreach(layer IN LISTS ARGN)
        target_include_directories(${target} ${visibility} ${LL_LAYERS_DIR}/${layer})
        target_compile_options(${target} ${visibility}
            -fmacro-prefix-map=${LL_LAYERS_DIR}/${layer}/=)
    endforeach()
endfunction()

# ll_layer(NAME log [SOURCES <glob>...] [MAY_USE util io] [MAY_USE_FACE operations] [LIBS ...]
#          [SUBFOLDERS])
# Makes the object library ll_<name> from <name>/*.c, with SUBFOLDERS also from its subfolders, two
# levels deep. Makes ll_<name>_dst from the same files with LLADD_DST defined (<lladd/dst.h>), and
# for LLADD_INSTALL_DEBUG ll_<name>_debug with LLADD_DEBUG defined. MAY_USE_FACE gives access to
# <layer>/<layer>.h of another layer, and to nothing else. A folder without sources makes no target;
# its headers are available all the same.
function(ll_layer)
    cmake_parse_arguments(L "SUBFOLDERS" "NAME" "SOURCES;MAY_USE;MAY_USE_FACE;LIBS" ${ARGN})
    if(NOT L_SOURCES)
        set(L_SOURCES ${L_NAME}/*.c)
    endif()
    if(L_SUBFOLDERS)
        list(APPEND L_SOURCES ${L_NAME}/*/*.c ${L_NAME}/*/*/*.c)
    endif()
    list(TRANSFORM L_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
    file(GLOB sources CONFIGURE_DEPENDS ${L_SOURCES})

    ll__link(${CMAKE_SOURCE_DIR}/${L_NAME} ${LL_LAYERS_DIR}/${L_NAME}/${L_NAME})
    ll__link(${CMAKE_SOURCE_DIR}/${L_NAME}/${L_NAME}.h
             ${LL_LAYERS_DIR}/${L_NAME}_face/${L_NAME}/${L_NAME}.h)
    set_property(GLOBAL APPEND PROPERTY LL_LAYERS ${L_NAME})
    set_property(GLOBAL PROPERTY LL_LIBS_${L_NAME} ${L_LIBS})
    if(NOT sources)
        message(STATUS "Layer ${L_NAME} has no sources")
        return()
    endif()

    ll__objects(ll_${L_NAME})
    set_target_properties(ll_${L_NAME} PROPERTIES INTERPROCEDURAL_OPTIMIZATION ${ll_ipo})
    if(ll_dst)
        ll__objects(ll_${L_NAME}_dst)
        target_compile_definitions(ll_${L_NAME}_dst PRIVATE LLADD_DST=1)
        target_compile_options(ll_${L_NAME}_dst PRIVATE ${ll_sim_optimise})
        set_target_properties(ll_${L_NAME}_dst PROPERTIES INTERPROCEDURAL_OPTIMIZATION ${ll_ipo})
    endif()
    if(ll_debug_too)
        ll__objects(ll_${L_NAME}_debug)
        target_compile_definitions(ll_${L_NAME}_debug PRIVATE LLADD_DEBUG=1)
        target_compile_options(ll_${L_NAME}_debug PRIVATE -Og -g)
    endif()
endfunction()

# Makes one object library of the layer that ll_layer defines.
macro(ll__objects target)
    add_library(${target} OBJECT ${sources})
    target_link_libraries(${target}
        PRIVATE ll_flags ll_library_flags ll_layer_flags Threads::Threads ${L_LIBS})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    ll_see(${target} PRIVATE public ${L_NAME} ${L_MAY_USE})
    foreach(layer IN LISTS L_MAY_USE_FACE)
        ll_see(${target} PRIVATE ${layer}_face)
    endforeach()
endmacro()
