# SPDX-License-Identifier: BSD-2-Clause
#
# Runs at the end of `cmake --install`. The archives' objects hold machine code and intermediate
# code. A program linked with the latter is optimised together with the whole library once more,
# which takes longer than most programs' own build; so what is installed has the former only.
# `libdir` and `objcopy` are set by cmake/Library.cmake.
file(GLOB archives "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${libdir}/liblladd*.a")
foreach(archive IN LISTS archives)
    execute_process(COMMAND "${objcopy}" --remove-section=.gnu.lto_*
        --remove-section=.gnu.debuglto_* "${archive}" RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "${archive}: its intermediate code cannot be removed")
    endif()
endforeach()
