# Third-party headers that are parsed once for all targets. Headers of this project are not precompiled, for two
# reasons: a change of one then compiles only the files that include it, and the mutants, which replace headers, see
# their replacements.
#
#   reprise_use_precompiled_headers(TARGET reprise_library_headers)   std, fmt, nlohmann/json
#   reprise_use_precompiled_headers(TARGET reprise_test_headers)      the same and GoogleTest
#
# REPRISE_PCH=OFF builds without precompiled headers; such a build also finds missing includes.
option(REPRISE_PCH "Precompile the headers of third parties" ON)

set(REPRISE_PRECOMPILED_HEADERS
  <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <condition_variable> <cstdint> <cstring> <deque>
  <exception> <filesystem> <fstream> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <random> <set>
  <span> <string> <string_view> <thread> <unordered_map> <unordered_set> <utility> <variant> <vector>
  <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp>)

# The literals of nlohmann/json.hpp ("..."_json) are not used here, but their definitions make the compiler
# instantiate the parser in every file that includes the header: 0.7 s each, even when the header is precompiled. This
# function writes a copy of the header without the literals and makes all targets use the copy.
function(reprise_drop_json_literals)
  get_target_property(folders nlohmann_json::nlohmann_json INTERFACE_INCLUDE_DIRECTORIES)
  find_path(REPRISE_JSON_HEADER_FOLDER nlohmann/json.hpp HINTS ${folders})
  mark_as_advanced(REPRISE_JSON_HEADER_FOLDER)
  if(NOT REPRISE_JSON_HEADER_FOLDER)
    return()
  endif()
  file(READ ${REPRISE_JSON_HEADER_FOLDER}/nlohmann/json.hpp text)
  string(FIND "${text}" "JSON_HEDLEY_NON_NULL(1)\ninline nlohmann::json operator \"\" _json(" first)
  string(FIND "${text}" "}  // namespace json_literals" last)
  if(first EQUAL -1 OR last LESS first)
    return()
  endif()
  string(SUBSTRING "${text}" 0 ${first} head)
  string(SUBSTRING "${text}" ${last} -1 tail)
  string(REPLACE "#if JSON_USE_GLOBAL_UDLS" "#if 0" tail "${tail}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/third_party/json/nlohmann/json.hpp CONTENT "${head}${tail}" @ONLY)
  target_include_directories(reprise_options SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/third_party/json)
endfunction()
reprise_drop_json_literals()

if(REPRISE_PCH)
  # The compiler uses a precompiled header only for files that have the same macro definitions.
  target_compile_definitions(reprise_options INTERFACE $<TARGET_PROPERTY:fmt::fmt,INTERFACE_COMPILE_DEFINITIONS>)
  # ccache needs -fpch-preprocess to tell one precompiled header from another. After a precompiled header, GCC 12 no
  # longer knows that an inlined function belongs to the standard library, and gives wrong warnings about std::string
  # and std::vector (its bugs 105329 and 105651). Builds with REPRISE_PCH=OFF keep these warnings.
  target_compile_options(reprise_options INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                             -Wno-maybe-uninitialized>)

  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled/nothing.cpp CONTENT "" @ONLY)
  function(reprise_add_precompiled_headers target)
    add_library(${target} OBJECT ${PROJECT_BINARY_DIR}/precompiled/nothing.cpp)
    target_link_libraries(${target} PRIVATE reprise_options fmt::fmt nlohmann_json::nlohmann_json)
    target_precompile_headers(${target} PRIVATE ${REPRISE_PRECOMPILED_HEADERS} ${ARGN})
    if(CMAKE_CXX_COMPILER_LAUNCHER)
      set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
        "sh;${PROJECT_SOURCE_DIR}/cmake/compile_with_checksum.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
    endif()
  endfunction()
  reprise_add_precompiled_headers(reprise_library_headers)
  if(REPRISE_BUILD_TESTS)
    find_package(GTest REQUIRED)
    reprise_add_precompiled_headers(reprise_test_headers <gtest/gtest.h> <gmock/gmock.h>)
    target_link_libraries(reprise_test_headers PRIVATE GTest::gtest GTest::gmock)
    # Tests are executables, which are compiled with -fPIE; libraries are compiled with -fPIC.
    set_target_properties(reprise_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(reprise_test_headers PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE} ${REPRISE_COLD_CODE_OPTIONS})
  endif()
endif()

function(reprise_use_precompiled_headers target headers)
  if(NOT REPRISE_PCH)
    return()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  # Files with their own options (instruction sets) cannot use a header that was precompiled without them.
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS TRUE)
    endif()
  endforeach()
endfunction()
