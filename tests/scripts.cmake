# Checks of the tree itself, of its documents and of the installed package, as ctest entries.

# tomllib came with Python 3.11.
find_package(Python3 3.11 COMPONENTS Interpreter QUIET)

# A test that cannot run here says why, and ctest lists it as skipped.
function(magpie_skipped_test name reason)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:")
endfunction()

function(magpie_python_test name script)
  if(NOT Python3_Interpreter_FOUND)
    magpie_skipped_test(${name} "needs Python 3.11 or newer")
    return()
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${script} ${ARGN})
  set_tests_properties(${name} PROPERTIES
    TIMEOUT 120 ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endfunction()

foreach(check layers docs orders)
  magpie_python_test(scripts/${check} ${PROJECT_SOURCE_DIR}/tools/check_${check} ${PROJECT_SOURCE_DIR})
  magpie_python_test(scripts/${check}_test ${CMAKE_CURRENT_SOURCE_DIR}/scripts/check_${check}_test.py)
endforeach()

# The model does not depend on how the library is built.
if(MAGPIE_SANITIZE OR CMAKE_CROSSCOMPILING)
  magpie_skipped_test(scripts/model "not in a sanitizer or cross build")
else()
  magpie_python_test(scripts/model ${PROJECT_SOURCE_DIR}/tools/check_model)
  set_tests_properties(scripts/model PROPERTIES
    SKIP_REGULAR_EXPRESSION "skipped:" PROCESSORS 2 TIMEOUT 400)
endif()

add_test(NAME scripts/setup_test COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/scripts/setup_test.sh)

# The switch under Valgrind, which is told about our stacks (src/fiber/sanitizer.h).
find_program(MAGPIE_VALGRIND valgrind)
if(MAGPIE_SANITIZE OR CMAKE_CROSSCOMPILING)
  magpie_skipped_test(valgrind/switch "only in a plain build")
elseif(NOT MAGPIE_VALGRIND)
  magpie_skipped_test(valgrind/switch "valgrind is not installed")
else()
  add_test(NAME valgrind/switch
    COMMAND ${MAGPIE_VALGRIND} --quiet --error-exitcode=99
            $<TARGET_FILE:unit_fiber_test> --gtest_filter=Switch.*)
  set_tests_properties(valgrind/switch PROPERTIES TIMEOUT 120)
endif()

# Some of what `make traced-stress` does.
if(MAGPIE_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT TARGET magpie_tool)
  magpie_skipped_test(scripts/traced_stress "only in a plain build with the tool")
else()
  magpie_python_test(scripts/traced_stress ${CMAKE_CURRENT_SOURCE_DIR}/scripts/traced_stress.py
    $<TARGET_FILE:stress_test> $<TARGET_FILE:magpie_tool> --short)
  set_tests_properties(scripts/traced_stress PROPERTIES PROCESSORS 2 TIMEOUT 300)
endif()

# Some of what `make compilers` does, on the compilers that are here.
if(MAGPIE_SANITIZE OR CMAKE_CROSSCOMPILING)
  magpie_skipped_test(scripts/compilers "only in a plain build")
elseif(NOT GTest_FOUND OR BUILD_SHARED_LIBS)
  magpie_skipped_test(scripts/compilers "needs an installed GoogleTest and a static library")
else()
  add_test(NAME scripts/compilers
    COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/scripts/compilers.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(scripts/compilers PROPERTIES TIMEOUT 600 PROCESSORS 2 ENVIRONMENT JOBS=2)
endif()

# Builds the library a second time, as a shared one, and programs against both.
if(MAGPIE_SANITIZE)
  magpie_skipped_test(scripts/package "not in a sanitizer build")
elseif(CMAKE_CROSSCOMPILING)
  magpie_skipped_test(scripts/package "not in a cross build")
else()
  add_test(NAME scripts/package
    COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/scripts/package_test.sh
            ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  set_tests_properties(scripts/package PROPERTIES TIMEOUT 600 PROCESSORS 2)
endif()

# Every example runs and ends well.
if(MAGPIE_EXAMPLES)
  file(GLOB examples CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
  foreach(source ${examples})
    get_filename_component(name ${source} NAME_WE)
    add_test(NAME examples/${name}
      COMMAND ${CMAKE_CROSSCOMPILING_EMULATOR} ${PROJECT_BINARY_DIR}/examples/${name})
    set_tests_properties(examples/${name} PROPERTIES TIMEOUT 120 RESOURCE_LOCK memory)
  endforeach()
endif()

# The command line tool, and the viewer in a browser without a window.
if(NOT MAGPIE_TOOL)
  magpie_skipped_test(tool/commands "built without the tool")
elseif(CMAKE_CROSSCOMPILING)
  magpie_skipped_test(tool/commands "not in a cross build")
else()
  magpie_python_test(tool/commands ${CMAKE_CURRENT_SOURCE_DIR}/tool/tool_test.py
    $<TARGET_FILE:magpie_tool> ${CMAKE_CURRENT_SOURCE_DIR}/data $<TARGET_FILE:program_dump>
    $<TARGET_FILE:program_make_trace>)
  magpie_python_test(tool/top ${CMAKE_CURRENT_SOURCE_DIR}/tool/top_test.py
    $<TARGET_FILE:magpie_tool> $<TARGET_FILE:program_debug_subject>)
  # It does not depend on how the tool is built.
  if(MAGPIE_SANITIZE)
    magpie_skipped_test(tool/viewer "not in a sanitizer build")
  else()
    magpie_python_test(tool/viewer ${CMAKE_CURRENT_SOURCE_DIR}/viewer/viewer_test.py
      $<TARGET_FILE:magpie_tool> ${PROJECT_SOURCE_DIR} $<TARGET_FILE:program_make_trace>)
    set_tests_properties(tool/viewer PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:" TIMEOUT 300)
    magpie_python_test(tool/live_page ${CMAKE_CURRENT_SOURCE_DIR}/viewer/live_test.py
      $<TARGET_FILE:program_debug_subject>)
    set_tests_properties(tool/live_page PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:")
  endif()
endif()

# What gdb shows. Sanitizers keep shadows that make core files huge.
if(MAGPIE_SANITIZE OR CMAKE_CROSSCOMPILING)
  magpie_skipped_test(gdb/script "only in a plain build")
else()
  magpie_python_test(gdb/script ${CMAKE_CURRENT_SOURCE_DIR}/scripts/gdb_test.py
    $<TARGET_FILE:program_gdb_subject>)
  set_tests_properties(gdb/script PROPERTIES SKIP_REGULAR_EXPRESSION "skipped:")
endif()
