// libFuzzer target: the first two bytes are the size of the data section, the rest is the header.
// Oracle besides "no crash": an accepted header covers the data exactly (reliability plan, row 4).

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/weights/safetensors_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace reprise;
  if (size < 2) return 0;
  const uint64_t data_bytes = bytes[0] | static_cast<uint64_t>(bytes[1]) << 8;
  const std::string_view header(reinterpret_cast<const char*>(bytes) + 2, size - 2);
  try {
    uint64_t covered = 0;
    for (const auto& tensor : weights::parse_safetensors_header(header, data_bytes, "f")) {
      if (tensor.begin != covered || tensor.end < tensor.begin) std::abort();
      if (weights::checked_size_bytes(tensor.spec) != tensor.size_bytes()) std::abort();
      covered = tensor.end;
    }
    if (covered != data_bytes) std::abort();
  } catch (const FileError&) {
    // The file is refused with a named error, as intended.
  }
  return 0;
}
