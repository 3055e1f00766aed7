# SPDX-License-Identifier: BSD-2-Clause
#
# Runs at the end of `cmake --install`. The objects in the archives contain machine code and
# intermediate code. With intermediate code the linker would optimise the whole library again with
# each program, which takes longer than building most programs. So the intermediate code is removed.
# `libdir` and `objcopy` are set by cmake/Library.cmake.
file(GLOB archives "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${libdir}/liblladd*.a")
foreach(archive IN LISTS archives)
    execute_process(COMMAND "${objcopy}" --remove-section=.gnu.lto_*
        --remove-section=.gnu.debuglto_* "${archive}" RESULT_VARIABLE failed)
    if(failed)
        message(FATAL_ERROR "${archive}: its intermediate code cannot be removed")
    endif()
endforeach()
