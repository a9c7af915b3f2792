#pragma once

#include <cstddef>
#include <string>

namespace reprise::compile {

/// The functions of NVRTC that this project calls, with the binary interface that is stable since
/// version 11. NVRTC needs no GPU and no driver. The machine's library fills the table.
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

/// The machine's library, or the reason why there is none.
struct LoadedNvrtc {
  NvrtcApi api;
  std::string reason;  // empty if there is a library
};

/// Opens the library, which stays open.
[[nodiscard]] LoadedNvrtc load_nvrtc();

}  // namespace reprise::compile
