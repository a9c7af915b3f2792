#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/weights/files/input_file.h"
#include "reprise/weights/files/safetensors_header.h"

namespace reprise::weights {

/// One safetensors file, validated completely when it is opened.
///
/// Owns the descriptor. The header stays in memory, and tensor bytes are read on demand. The size
/// of every allocation is checked against the real size of the file. Reading is `const` and may be
/// done from several threads at once.
class SafetensorsFile {
 public:
  /// \throws FileError E_TRUNCATED, E_HEADER_SIZE, and what parse_safetensors_header() throws.
  explicit SafetensorsFile(InputFile file);

  /// All tensors in file order.
  [[nodiscard]] std::span<const TensorEntry> tensors() const noexcept { return tensors_; }
  /// The tensor of this name or nullptr; lives as long as the file.
  [[nodiscard]] const TensorEntry* find(std::string_view name) const;
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

  /// Fills `dst` from byte `offset` of the tensor, as its spec describes it. \pre offset +
  /// dst.size() <= tensor.size_bytes(), and the entry is of this file; of a tensor of F64 whole
  /// elements are read. \throws FileError E_TRUNCATED if the file has become shorter since
  /// it was opened, E_IO.
  void read(const TensorEntry& tensor, uint64_t offset, std::span<std::byte> dst) const;

 private:
  void read_f64(const TensorEntry& tensor, uint64_t offset, std::span<std::byte> dst) const;

  InputFile file_;
  std::vector<TensorEntry> tensors_;
  uint64_t data_begin_ = 0;  // byte of the file at which the data section starts
  std::unordered_map<std::string_view, const TensorEntry*> by_name_;  // views into tensors_
};

}  // namespace reprise::weights
