# find_package(Reprise) gives Reprise::api (the engine), Reprise::config (mode resolution) and Reprise::cudagraph
# (dispatcher, wrapper, capture). The libraries that these targets link must be installed too.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(nlohmann_json)
find_dependency(OpenSSL)
include(${CMAKE_CURRENT_LIST_DIR}/FindLibrary.cmake)
reprise_find_library(PCRE2 libpcre2-8 pcre2.h pcre2-8)
reprise_find_library(UTF8PROC libutf8proc utf8proc.h utf8proc)
reprise_find_library(XXHASH libxxhash xxhash.h xxhash)
include(${CMAKE_CURRENT_LIST_DIR}/RepriseTargets.cmake)
