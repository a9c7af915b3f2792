# Writes a header with a hash of sources that determine what a cache contains: compiled programs, or
# packed weights. A build with another hash does not use the entries in the cache. Run as a script:
#   cmake -DROOT=... -DOUT=... -DNAMESPACE=... -DNAME=... -DFILES="a;b" -P SourcesHash.cmake
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
namespace reprise::@NAMESPACE@ {

/// Hash of the sources of this build that determine the content of a cache.
inline constexpr const char* @NAME@ = "@hash@";

}  // namespace reprise::@NAMESPACE@
]] @ONLY)
