#include "reprise/base/error.h"
#include "reprise/weights/files/safetensors_header.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void safetensors(std::string_view input) {
  if (input.size() < 2) return;
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(input[i])); };
  const uint64_t data_bytes = byte(0) | byte(1) << 8;
  try {
    uint64_t covered = 0;
    for (const auto& tensor : weights::parse_safetensors_header(input.substr(2), data_bytes, "f")) {
      require(tensor.begin == covered && tensor.end >= tensor.begin,
              "the tensors of an accepted header follow each other");
      require(weights::checked_size_bytes(tensor.spec) == tensor.size_bytes(),
              "a tensor has the size of its shape");
      covered = tensor.end;
    }
    require(covered == data_bytes, "the tensors of an accepted header cover the data");
  } catch (const FileError&) {
    // The file is refused with a named error, as intended.
  }
}

}  // namespace reprise::fuzz
