// libFuzzer target: the bytes are a whole GGUF file. Oracles besides "no crash": an accepted header
// describes tensors inside the file, and configuration and tokenizer are read or refused by name.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "reprise/base/error.h"
#include "reprise/weights/gguf/gguf_config.h"
#include "reprise/weights/gguf/gguf_tokenizer.h"
#include "reprise/weights/gguf/header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace reprise;
  namespace gguf = weights::gguf;
  const auto read_at = [&](uint64_t offset, std::span<std::byte> dst) {
    if (offset > size || dst.size() > size - offset) std::abort();
    std::memcpy(dst.data(), bytes + offset, dst.size());
  };
  try {
    const gguf::Header header = gguf::read_header(read_at, size, "f");
    for (const gguf::TensorInfo& tensor : header.tensors) {
      if (tensor.begin > size || tensor.bytes > size - tensor.begin) std::abort();
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
  return 0;
}
