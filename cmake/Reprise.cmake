# One target per folder. Files are listed, never globbed.
#
#   reprise_library(NAME base SRCS a.cpp HDRS a.h DEPS reprise_x fmt::fmt)   -> target reprise_base, Reprise::base
#   reprise_test(NAME base SRCS a_test.cpp DEPS reprise_base)                -> target base_test, ctest "base"
#   reprise_test_binary(NAME engines DEPS reprise_api)                       -> target engines_test, for tests that say
#                                                                               "IN engines"
#   reprise_binary(NAME reprise SRCS main.cpp DEPS ...)                      -> target reprise in build/bin

# Only kernels gain from -O3, and their files set it.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Most of a build's time goes into reading headers. A group of sources reads them once, so the whole build takes a
# third of the time; a change of one source compiles its group again. Names in unnamed namespaces must therefore be
# unique within a folder. Files with their own compiler options are not grouped.
option(REPRISE_UNITY "Compile the sources of a target in groups" ON)
set(CMAKE_UNITY_BUILD ${REPRISE_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# Newer compilers have warnings that no one here has seen, and nobody's build should fail because of them.
set(is_known_compiler ON)
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13) OR
   (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 20))
  set(is_known_compiler OFF)
endif()
option(REPRISE_WERROR "Warnings are errors; off for compilers newer than those of the developers" ${is_known_compiler})
# For projects that link the libraries: only the include folder.
add_library(reprise_headers INTERFACE)
target_include_directories(reprise_headers INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
target_compile_features(reprise_headers INTERFACE cxx_std_20)
target_link_libraries(reprise_headers INTERFACE Threads::Threads)

# For the sources of this project: warnings and code generation.
add_library(reprise_options INTERFACE)
target_link_libraries(reprise_options INTERFACE reprise_headers)
target_compile_options(reprise_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor $<$<BOOL:${REPRISE_WERROR}>:-Werror>
  # Options are structs with defaults, and designated initialisers set only some fields on purpose.
  -Wno-missing-field-initializers
  # GCC 12 warns of overlapping copies in every inlined std::string operator+ (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # GCC treats the sources of a group like headers and warns of members with a type from an unnamed namespace.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${REPRISE_UNITY}>>:-Wno-subobject-linkage>
  # The compiler fuses a product and a sum only where a kernel calls fma: interpreted, generated and hand-written
  # kernels must be able to give the same bits.
  -ffp-contract=off
  -fstack-protector-strong)
# GLIBCXX assertions stay on in Release: an access out of range aborts with its place and never reads silently.
target_compile_definitions(reprise_options INTERFACE _GLIBCXX_ASSERTIONS)
if(REPRISE_SANITIZE)
  target_compile_options(reprise_options INTERFACE
    -fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(reprise_options INTERFACE -fsanitize=${REPRISE_SANITIZE})
endif()


# Mitigations that limit the damage of a memory error. They apply to every target of this build, also to third-party
# sources and precompiled headers, because one unprotected object is enough for an attacker.
# tests/integration/hardening_test.py checks the built program. Not used with sanitizers: FORTIFY would hide their
# checks.
option(REPRISE_HARDEN "FORTIFY, stack clash protection, CET, immediate binding and read-only relocations" ON)
if(REPRISE_HARDEN AND NOT REPRISE_SANITIZE)
  include(CheckCXXCompilerFlag)
  foreach(option -fstack-clash-protection -fcf-protection=full)
    string(MAKE_C_IDENTIFIER "REPRISE_HAS${option}" has_option)
    check_cxx_compiler_flag(${option} ${has_option})
    if(${has_option})
      add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${option}>)
    endif()
  endforeach()
  # FORTIFY needs optimisation. Some distributions already define a level.
  set(REPRISE_FORTIFY 2)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
    set(REPRISE_FORTIFY 3)
  endif()
  add_compile_options($<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE>
                      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-D_FORTIFY_SOURCE=${REPRISE_FORTIFY}>)
  add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
endif()

# For code that runs once, such as tests and the command line: optimising it takes longer than running it. With -Og, GCC
# takes about five sixths of the time of -O1. Its garbage collection takes a seventh of the time of such
# a file, and would free 0.2 GB. clang-tidy, which reads the commands of a build without groups, does not know the
# parameter.
set(REPRISE_COLD_CODE_OPTIONS
  $<$<CONFIG:Release>:-Og> $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${REPRISE_UNITY}>>:--param=ggc-min-heapsize=524288>)

include(${CMAKE_CURRENT_LIST_DIR}/PrecompiledHeaders.cmake)

include(${CMAKE_CURRENT_LIST_DIR}/FindLibrary.cmake)

function(reprise_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;HDRS;DEPS;PRIVATE_DEPS" ${ARGN})
  set(target reprise_${ARG_NAME})
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS} ${ARG_HDRS})
    target_link_libraries(${target} PUBLIC reprise_headers ${ARG_DEPS}
                          PRIVATE $<BUILD_INTERFACE:reprise_options> ${ARG_PRIVATE_DEPS})
    reprise_use_precompiled_headers(${target} reprise_library_headers)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE reprise_headers ${ARG_DEPS})
  endif()
  add_library(Reprise::${ARG_NAME} ALIAS ${target})
endfunction()

function(reprise_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE reprise_options ${ARG_DEPS})
endfunction()

# Divides the cases of a test whose run takes minutes into num_parts parts. scripts/test.sh runs one part of them, after each
# commit the next one, so that after num_parts commits all have run; with --whole, and in any other run, all run. The
# filter of GoogleTest names cases that scripts/test.sh always runs; Python's suites name theirs themselves
# (tests/integration/in_turn.py). tests/turns tells ctest which part it is.
function(reprise_take_turns test num_parts filter)
  set_property(GLOBAL APPEND PROPERTY REPRISE_TESTS_IN_TURN ${test})
  set_property(GLOBAL PROPERTY REPRISE_TURNS_OF_${test} "${num_parts};${filter}")
endfunction()

# Makes an empty gtest binary, NAME_test.
function(reprise_test_binary)
  cmake_parse_arguments(ARG "" "NAME;MAIN" "DEPS" ${ARGN})
  if(NOT REPRISE_BUILD_TESTS)
    return()
  endif()
  find_package(GTest REQUIRED)
  set(target ${ARG_NAME}_test)
  if(NOT ARG_MAIN)
    set(ARG_MAIN reprise_support_files_main)
  endif()
  add_executable(${target})
  target_link_libraries(${target} PRIVATE reprise_options ${ARG_DEPS} reprise_source_dir GTest::gtest GTest::gmock ${ARG_MAIN})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})  # "tests/support/..."
  target_compile_options(${target} PRIVATE ${REPRISE_COLD_CODE_OPTIONS})
  reprise_use_precompiled_headers(${target} reprise_test_headers)
endfunction()

# Adds a test with a gtest binary of its own or, IN another one, with its share of that binary: fewer binaries read the
# same headers fewer times. LABELS select suites ("tsan": also run under ThreadSanitizer). IN_TURN and ALWAYS:
# the number of parts and the filter of reprise_take_turns().
function(reprise_test)
  cmake_parse_arguments(ARG "" "NAME;IN;TIMEOUT;IN_TURN;ALWAYS" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT REPRISE_BUILD_TESTS)
    return()
  endif()
  if(ARG_IN)
    set(target ${ARG_IN}_test)
    list(TRANSFORM ARG_SRCS REPLACE "^.*/" "" OUTPUT_VARIABLE names)
    list(JOIN names "," names)
    target_link_libraries(${target} PRIVATE ${ARG_DEPS})
    add_test(NAME ${ARG_NAME} COMMAND ${target} --files=${names})
  else()
    set(target ${ARG_NAME}_test)
    reprise_test_binary(NAME ${ARG_NAME} DEPS ${ARG_DEPS} MAIN GTest::gtest_main)
    add_test(NAME ${ARG_NAME} COMMAND ${target})
  endif()
  target_sources(${target} PRIVATE ${ARG_SRCS})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1200)  # a test takes seconds, but on a machine with thirty other programs it takes minutes
  endif()
  if(REPRISE_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 6")
  endif()
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}")
  if("tsan" IN_LIST ARG_LABELS)
    add_dependencies(tsan_tests ${target})
  endif()
  if(ARG_IN_TURN)
    reprise_take_turns(${ARG_NAME} ${ARG_IN_TURN} "${ARG_ALWAYS}")
  endif()
endfunction()

if(REPRISE_BUILD_TESTS)
  enable_testing()
  add_custom_target(tsan_tests)  # the binaries of the tests labelled tsan
endif()
