#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "reprise/weights/files/input_file.h"
#include "reprise/weights/gguf/header.h"

namespace reprise::weights::gguf {

/// One GGUF file, validated completely when it is opened. Owns the descriptor; tensor bytes are
/// read on demand, from any number of threads.
class GgufFile {
 public:
  /// \throws FileError, as read_header()
  explicit GgufFile(InputFile file);

  [[nodiscard]] const Metadata& metadata() const noexcept { return header_.metadata; }
  [[nodiscard]] std::span<const TensorInfo> tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

  /// Fills `dst` from byte `offset` of the tensor, as stored. \pre offset + dst.size() <=
  /// tensor.bytes, and the tensor is of this file. \throws FileError E_TRUNCATED if the file has
  /// become shorter since it was opened, E_IO
  void read(const TensorInfo& tensor, uint64_t offset, std::span<std::byte> dst) const;

 private:
  InputFile file_;
  Header header_;
};

}  // namespace reprise::weights::gguf
