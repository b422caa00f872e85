# Every public header compiles alone, with the warnings that users may have on, and may be
# included twice. Building this target is the test. tests/api/*.cpp are compiled along: what
# they promise is a static_assert.

file(GLOB_RECURSE public_headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/include/magpie/*.h)
set(public_header_sources)
foreach(header ${public_headers})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/public_headers/${header}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include <${header}>\n#include <${header}>\n")
  list(APPEND public_header_sources ${source})
endforeach()
file(GLOB api_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/api/*.cpp)

add_library(magpie_public_headers OBJECT ${public_header_sources} ${api_sources})
target_include_directories(magpie_public_headers PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(magpie_public_headers PRIVATE
  -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror)
