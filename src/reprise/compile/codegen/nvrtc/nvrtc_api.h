#pragma once

#include <cstddef>
#include <string>

namespace reprise::compile {

/// The functions of NVRTC that this project calls. Their binary interface has been stable since
/// version 11. NVRTC needs no GPU and no driver. load_nvrtc() fills the table with the functions of
/// the library on this machine.
struct NvrtcApi {
  using Program = void*;
  int (*version)(int* major, int* minor) = nullptr;
  const char* (*error_string)(int result) = nullptr;
  int (*create)(Program* program,
                const char* source,
                const char* name,
                int num_headers,
                const char* const* headers,
                const char* const* include_names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int num_options, const char* const* options) = nullptr;
  int (*log_size)(Program program, size_t* bytes) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  int (*cubin_size)(Program program, size_t* bytes) = nullptr;
  int (*cubin)(Program program, char* bytes) = nullptr;
};

/// The machine's NVRTC library or, without one, the reason.
struct LoadedNvrtc {
  NvrtcApi api;
  std::string reason;  // empty if there is a library
};

/// Opens the library and never closes it.
[[nodiscard]] LoadedNvrtc load_nvrtc();

}  // namespace reprise::compile
