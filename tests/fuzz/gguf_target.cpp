#include <cstring>

#include "reprise/base/error.h"
#include "reprise/weights/gguf/gguf_config.h"
#include "reprise/weights/gguf/gguf_tokenizer.h"
#include "reprise/weights/gguf/header.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

void gguf(std::string_view input) {
  namespace gguf = weights::gguf;
  const auto read_at = [&](uint64_t offset, std::span<std::byte> dst) {
    require(offset <= input.size() && dst.size() <= input.size() - offset,
            "a header is read only inside the file");
    std::memcpy(dst.data(), input.data() + offset, dst.size());
  };
  try {
    const gguf::Header header = gguf::read_header(read_at, input.size(), "f");
    for (const gguf::TensorInfo& tensor : header.tensors) {
      require(tensor.begin <= input.size() && tensor.bytes <= input.size() - tensor.begin,
              "an accepted tensor lies inside the file");
    }
    try {
      static_cast<void>(gguf::config_json(header.metadata, {.vocab_size = 1}));
    } catch (const FileError&) {
      // The metadata is refused with a named error, as intended.
    }
    static_cast<void>(gguf::tokenizer_json(header.metadata));
  } catch (const FileError&) {
    // The file is refused with a named error, as intended.
  }
}

}  // namespace reprise::fuzz
