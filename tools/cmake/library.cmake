# The library: one set of objects, packed as libmagpie.a or libmagpie.so.
#
# The objects are a target of their own because the library hides everything but its public
# API: the unit tests, which look inside, link the objects themselves.

find_package(Threads REQUIRED)
include(GNUInstallDirs)

file(GLOB magpie_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/src/*/*.cpp
     ${PROJECT_SOURCE_DIR}/src/os/linux/*.cpp)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64")
  list(APPEND magpie_sources ${PROJECT_SOURCE_DIR}/src/fiber/entry_aarch64.S)
else()
  list(APPEND magpie_sources ${PROJECT_SOURCE_DIR}/src/fiber/entry_x86_64.S)
endif()

# gdb's script travels inside the debug information.
set(magpie_gdb_script ${PROJECT_SOURCE_DIR}/tools/gdb/magpie-gdb.py)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/sched/start.cpp PROPERTIES
  COMPILE_DEFINITIONS "MAGPIE_GDB_SCRIPT=\"${magpie_gdb_script}\""
  OBJECT_DEPENDS ${magpie_gdb_script})

# The debug server's page is inside the library.
set(magpie_live_page ${PROJECT_SOURCE_DIR}/viewer/live.html)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/observe/debug_pages.cpp PROPERTIES
  COMPILE_DEFINITIONS "MAGPIE_LIVE_PAGE=\"${magpie_live_page}\""
  OBJECT_DEPENDS ${magpie_live_page})

add_library(magpie_objects OBJECT ${magpie_sources})
set_target_properties(magpie_objects PROPERTIES
  POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON)
target_compile_features(magpie_objects PUBLIC cxx_std_20)
target_include_directories(magpie_objects
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_compile_options(magpie_objects PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>
  # Frame pointers: stack traces from signal handlers and the tracer walk them.
  -fno-omit-frame-pointer
  # Thread-locals are read in signal handlers and in the scheduler's hot paths, where the lazy
  # allocation of the default model (malloc!) must not happen.
  -ftls-model=initial-exec
  # Reports name files as they are called in the repository.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  # No mark for shadow stacks, which the context switch does not keep (switch_x86_64.h).
  $<$<NOT:$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>>:-fcf-protection=none>)
target_link_libraries(magpie_objects PUBLIC Threads::Threads ${CMAKE_DL_LIBS})

add_library(magpie $<TARGET_OBJECTS:magpie_objects>)
add_library(magpie::magpie ALIAS magpie)
set_target_properties(magpie PROPERTIES
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR})
target_compile_features(magpie PUBLIC cxx_std_20)
target_include_directories(magpie PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# dl: names of the functions in a stack trace (empty with glibc >= 2.34, which has it inside).
target_link_libraries(magpie PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
# No lazy binding: the first call of a libc function would otherwise run the dynamic linker,
# with its locks and its stack depth, wherever that call happens to be.
target_link_options(magpie PRIVATE -Wl,-z,relro,-z,now)

install(TARGETS magpie EXPORT magpie_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# For programs without debug information in them: `source` it.
install(FILES ${magpie_gdb_script} DESTINATION ${CMAKE_INSTALL_DATADIR}/magpie)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/magpie DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT magpie_targets NAMESPACE magpie:: FILE magpie-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/magpie)

include(CMakePackageConfigHelpers)
configure_package_config_file(${PROJECT_SOURCE_DIR}/tools/cmake/magpie-config.cmake.in
  ${PROJECT_BINARY_DIR}/magpie-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/magpie)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/magpie-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/magpie-config.cmake
  ${PROJECT_BINARY_DIR}/magpie-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/magpie)

# Relative to the .pc file, so that an installed tree can be moved.
file(RELATIVE_PATH magpie_pc_to_prefix
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${PROJECT_SOURCE_DIR}/tools/cmake/magpie.pc.in ${PROJECT_BINARY_DIR}/magpie.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/magpie.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
