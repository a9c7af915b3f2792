#include "reprise/weights/gguf/gguf_file.h"

#include <utility>

#include "reprise/base/assert.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {

GgufFile::GgufFile(InputFile file) : file_(std::move(file)) {
  header_ = read_header(
      [this](uint64_t offset, std::span<std::byte> dst) { file_.read_at(offset, dst, "header"); },
      file_.size_bytes(),
      file_.path());
}

void GgufFile::read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> dst) const {
  REPRISE_ASSERT(dst.size() <= tensor.bytes && offset <= tensor.bytes - dst.size(),
                 "a read of {} bytes at offset {} leaves the tensor of {} bytes",
                 dst.size(),
                 offset,
                 tensor.bytes);
  file_.read_at(tensor.begin + offset, dst, visible(tensor.name));
}

}  // namespace reprise::weights::gguf
