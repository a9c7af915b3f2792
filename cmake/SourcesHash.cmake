# Writes build_identity.h: a hash of the sources that determine compiled programs. A build with
# another hash does not use the entries in the compile cache. Run as a script:
#   cmake -DROOT=... -DOUT=... -DFILES="a;b" -P SourcesHash.cmake
set(all "")
foreach(file ${FILES})
  file(SHA256 ${ROOT}/${file} hash)
  string(APPEND all "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${all}")
string(SUBSTRING ${hash} 0 32 hash)
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#pragma once

/// Made by cmake/SourcesHash.cmake.
namespace reprise::compile {

/// Hash of the sources of models, programs, passes, code generation and kernels of this build.
inline constexpr const char* kSourcesHash = "@hash@";

}  // namespace reprise::compile
]] @ONLY)
