# SPDX-License-Identifier: BSD-2-Clause
#
# Makes the library, with the objects of every layer: an archive, and a shared object that exports
# lladd_* only. Makes lladd_dst, an archive of the same sources instrumented for simulation, and,
# with LLADD_INSTALL_DEBUG, liblladd-debug, which has the checks of LLADD_DEBUG. A program is linked
# with one of these three. Also lists what `cmake --install` installs.
include(CMakePackageConfigHelpers)

set(ll_objects)
set(ll_dst_objects)
set(ll_debug_objects)
get_property(ll_layers GLOBAL PROPERTY LL_LAYERS)
foreach(layer IN LISTS ll_layers)
    if(TARGET ll_${layer})
        list(APPEND ll_objects $<TARGET_OBJECTS:ll_${layer}>)
    endif()
    if(TARGET ll_${layer}_dst)
        list(APPEND ll_dst_objects $<TARGET_OBJECTS:ll_${layer}_dst>)
    endif()
    if(TARGET ll_${layer}_debug)
        list(APPEND ll_debug_objects $<TARGET_OBJECTS:ll_${layer}_debug>)
    endif()
endforeach()
if(LLADD_INSTALL_DEBUG AND LLADD_DEBUG)
    set(ll_debug_objects ${ll_objects})
endif()

# The sources of liblladd_ship (below); those of stores in S3 are arguments. lladd_dst contains the
# others, too, so that the simulator can run backups, archives and restores.
file(GLOB ll_ship_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ship/*.c)
ll__link(${CMAKE_SOURCE_DIR}/ship ${LL_LAYERS_DIR}/ship/ship)
function(ll__ship_objects target)
    add_library(${target} OBJECT ${ll_ship_sources} ${ARGN})
    target_link_libraries(${target} PRIVATE ll_flags ll_library_flags Threads::Threads
        PkgConfig::lz4)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    ll_see(${target} PRIVATE public ship)
endfunction()

set(ll_targets)
if(ll_objects AND LLADD_STATIC)
    add_library(lladd_static STATIC ${ll_objects})
    set_target_properties(lladd_static PROPERTIES OUTPUT_NAME lladd EXPORT_NAME static)
    list(APPEND ll_targets lladd_static)
endif()
if(ll_dst_objects)
    ll__ship_objects(ll_ship_dst)
    target_compile_definitions(ll_ship_dst PRIVATE LLADD_DST=1)
    target_compile_options(ll_ship_dst PRIVATE ${ll_sim_optimise})
    list(APPEND ll_dst_objects $<TARGET_OBJECTS:ll_ship_dst>)
    add_library(lladd_dst STATIC ${ll_dst_objects})
    set_target_properties(lladd_dst PROPERTIES EXPORT_NAME dst)
    # LLADD_DST adds scheduling points also to the inline functions of <lladd/sync.h>.
    target_compile_definitions(lladd_dst PUBLIC LLADD_DST=1)
    list(APPEND ll_targets lladd_dst)

    file(GLOB ll_sim_sources CONFIGURE_DEPENDS
        ${CMAKE_SOURCE_DIR}/sim/*.c ${CMAKE_SOURCE_DIR}/sim/subjects/*.c)
    ll__link(${CMAKE_SOURCE_DIR}/sim ${LL_LAYERS_DIR}/sim/sim)
    add_library(lladd_sim STATIC ${ll_sim_sources})
    set_target_properties(lladd_sim PROPERTIES
        EXPORT_NAME sim POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION ${ll_ipo})
    target_link_libraries(lladd_sim PUBLIC lladd_dst
        PRIVATE $<BUILD_INTERFACE:ll_library_flags>)
    target_compile_options(lladd_sim PRIVATE ${ll_sim_optimise})
    ll_see(lladd_sim PRIVATE public sim)
    list(APPEND ll_targets lladd_sim)
endif()

# ll__shared(<target> <file> <export> <objects>...)
function(ll__shared target file export)
    add_library(${target} SHARED ${ARGN})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${file} EXPORT_NAME ${export} VERSION ${PROJECT_VERSION} SOVERSION 0
        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/lladd.map)
    target_link_options(${target} PRIVATE
        -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/lladd.map)
    if(NOT LLADD_SANITIZE) # the sanitizer's symbols are in the program, not here
        target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
endfunction()

if(ll_objects AND LLADD_SHARED)
    ll__shared(lladd_shared lladd lladd ${ll_objects})
    set_target_properties(lladd_shared PROPERTIES INTERPROCEDURAL_OPTIMIZATION ${ll_ipo})
    list(APPEND ll_targets lladd_shared)
endif()
if(ll_debug_objects AND LLADD_SHARED)
    ll__shared(lladd_debug lladd-debug debug ${ll_debug_objects})
    list(APPEND ll_targets lladd_debug)
endif()
if(ll_debug_objects AND LLADD_STATIC)
    add_library(lladd_debug_static STATIC ${ll_debug_objects})
    set_target_properties(lladd_debug_static PROPERTIES
        OUTPUT_NAME lladd-debug EXPORT_NAME debug_static)
    list(APPEND ll_targets lladd_debug_static)
endif()

# liblladd_xa.so: a separate shared object that uses the public headers only. It is linked with the
# shared library, because an application that loads it shares a database with it. Tests link the
# objects of liblladd_xa with the static library.
file(GLOB ll_xa_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/xa/*.c)
ll__link(${CMAKE_SOURCE_DIR}/xa ${LL_LAYERS_DIR}/xa/xa)
add_library(ll_xa OBJECT ${ll_xa_sources})
target_link_libraries(ll_xa PRIVATE ll_flags ll_library_flags Threads::Threads)
set_target_properties(ll_xa PROPERTIES POSITION_INDEPENDENT_CODE ON)
ll_see(ll_xa PRIVATE public xa)
if(TARGET lladd_shared)
    add_library(lladd_xa SHARED $<TARGET_OBJECTS:ll_xa>)
    set_target_properties(lladd_xa PROPERTIES
        EXPORT_NAME xa VERSION ${PROJECT_VERSION} SOVERSION 0
        INSTALL_RPATH "$ORIGIN"
        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/lladd.map)
    target_link_libraries(lladd_xa PUBLIC lladd_shared PRIVATE ${CMAKE_DL_LIBS})
    target_link_options(lladd_xa PRIVATE
        -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/lladd.map)
    target_include_directories(lladd_xa INTERFACE
        $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/xa>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/lladd-xa>)
    list(APPEND ll_targets lladd_xa)
endif()

# liblladd_ship: backups and stores. A library of its own that uses the public headers only, as an
# archive and as a shared object; each is linked with the library of its kind. Stores in S3 need
# libcurl, which signs requests rightly from 7.88 on, and libexpat. libcurl is not linked, but
# loaded when such a store is opened.
set(ll_s3)
set(ll_s3_sources)
set(ll_with_s3 OFF)
if(LLADD_S3)
    pkg_check_modules(curl QUIET IMPORTED_TARGET libcurl>=7.88)
    pkg_check_modules(expat QUIET IMPORTED_TARGET expat)
    if(curl_FOUND AND expat_FOUND)
        set(ll_with_s3 ON)
        set(ll_s3 PkgConfig::expat ${CMAKE_DL_LIBS})
        file(GLOB ll_s3_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ship/s3/*.c)
    else()
        message(STATUS "No libcurl 7.88 or no libexpat: no stores in S3")
    endif()
endif()
ll__ship_objects(ll_ship ${ll_s3_sources})
target_link_libraries(ll_ship PRIVATE ${ll_s3})
if(ll_with_s3)
    target_compile_definitions(ll_ship PRIVATE LL_SHIP_S3=1)
    target_include_directories(ll_ship SYSTEM PRIVATE ${curl_INCLUDE_DIRS})
endif()
if(TARGET lladd_static)
    add_library(lladd_ship_static STATIC $<TARGET_OBJECTS:ll_ship>)
    set_target_properties(lladd_ship_static PROPERTIES
        OUTPUT_NAME lladd_ship EXPORT_NAME ship_static)
    target_link_libraries(lladd_ship_static PUBLIC lladd_static PRIVATE ${ll_s3})
    list(APPEND ll_targets lladd_ship_static)
endif()
if(TARGET lladd_shared)
    add_library(lladd_ship SHARED $<TARGET_OBJECTS:ll_ship>)
    set_target_properties(lladd_ship PROPERTIES
        EXPORT_NAME ship VERSION ${PROJECT_VERSION} SOVERSION 0
        INSTALL_RPATH "$ORIGIN"
        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/lladd.map)
    target_link_libraries(lladd_ship PUBLIC lladd_shared PRIVATE ${ll_s3})
    target_link_options(lladd_ship PRIVATE
        -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/lladd.map)
    list(APPEND ll_targets lladd_ship)
endif()

foreach(target IN LISTS ll_targets)
    # Users get the linker flags of ll_flags only (sanitizers, coverage), and the public headers.
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:ll_flags>
        $<LINK_ONLY:PkgConfig::lz4> PUBLIC Threads::Threads)
    target_include_directories(${target} INTERFACE
        $<BUILD_INTERFACE:${LL_LAYERS_DIR}/public>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    get_target_property(alias ${target} EXPORT_NAME)
    add_library(lladd::${alias} ALIAS ${target})
endforeach()

if(ll_targets)
    install(TARGETS ${ll_targets} EXPORT lladd-targets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    if(ll_ipo AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_OBJCOPY)
        install(CODE "set(libdir \"${CMAKE_INSTALL_LIBDIR}\")\nset(objcopy \"${CMAKE_OBJCOPY}\")")
        install(SCRIPT cmake/plain_archives.cmake)
    endif()
    install(DIRECTORY lladd/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lladd
        FILES_MATCHING PATTERN "*.h" PATTERN "*_private.h" EXCLUDE PATTERN "*_format.h" EXCLUDE)

    set(ll_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lladd)
    install(EXPORT lladd-targets NAMESPACE lladd:: DESTINATION ${ll_package_dir})
    configure_package_config_file(cmake/lladd-config.cmake.in
        ${CMAKE_BINARY_DIR}/lladd-config.cmake INSTALL_DESTINATION ${ll_package_dir})
    write_basic_package_version_file(${CMAKE_BINARY_DIR}/lladd-config-version.cmake
        COMPATIBILITY SameMinorVersion)
    install(FILES ${CMAKE_BINARY_DIR}/lladd-config.cmake
        ${CMAKE_BINARY_DIR}/lladd-config-version.cmake DESTINATION ${ll_package_dir})

    # Relative, so that `cmake --install --prefix` and a moved tree work, too.
    file(RELATIVE_PATH ll_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
        ${CMAKE_INSTALL_PREFIX})
    set(ll_pc_names lladd)
    if(ll_debug_objects)
        list(APPEND ll_pc_names lladd-debug)
    endif()
    foreach(ll_pc_name IN LISTS ll_pc_names)
        set(ll_pc_what "${PROJECT_DESCRIPTION}")
        if(ll_pc_name STREQUAL "lladd-debug")
            string(APPEND ll_pc_what " (checks how programs use it; link it instead of lladd)")
        endif()
        configure_file(cmake/lladd.pc.in ${CMAKE_BINARY_DIR}/${ll_pc_name}.pc @ONLY)
        install(FILES ${CMAKE_BINARY_DIR}/${ll_pc_name}.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endforeach()
    if(TARGET lladd_sim)
        configure_file(cmake/lladd-sim.pc.in ${CMAKE_BINARY_DIR}/lladd-sim.pc @ONLY)
        install(FILES ${CMAKE_BINARY_DIR}/lladd-sim.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endif()
    if(TARGET lladd_ship)
        configure_file(cmake/lladd-ship.pc.in ${CMAKE_BINARY_DIR}/lladd-ship.pc @ONLY)
        install(FILES ${CMAKE_BINARY_DIR}/lladd-ship.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endif()
    if(TARGET lladd_xa)
        # In a separate folder, because other packages may have an <xa.h>.
        install(FILES xa/xa.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lladd-xa)
        configure_file(xa/lladd-xa.pc.in ${CMAKE_BINARY_DIR}/lladd-xa.pc @ONLY)
        install(FILES ${CMAKE_BINARY_DIR}/lladd-xa.pc
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    endif()
endif()
