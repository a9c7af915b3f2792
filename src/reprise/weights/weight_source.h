#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/tensor/block_panels.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {

/// Neighbouring rows of a tensor: indices of its first dimension.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

/// Asserts that `dst` has exactly the bytes of that many elements of the tensor `name`.
void require_size(std::string_view name,
                  uint64_t num_elements,
                  DType dtype,
                  std::span<const std::byte> dst);

/// The source of a model's weights: a checkpoint on disk, or values made up from a seed.
///
/// Immutable after construction; every member may be called from several threads at once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// The tensor stored under `name` (Hugging Face naming), or nullptr. The result lives as long as
  /// the source.
  [[nodiscard]] virtual const TensorSpec* find(std::string_view name) const = 0;

  /// Every name, sorted; the views live as long as the source.
  [[nodiscard]] virtual std::vector<std::string_view> names() const = 0;

  /// Writes the whole tensor to `dst`, row-major, converted to `dtype`.
  /// \pre dst.size() is exactly the tensor's element count times dtype_bytes(dtype).
  /// \throws FileError E_MISSING, E_TRUNCATED, E_IO, E_DTYPE (no such conversion).
  virtual void read(std::string_view name, DType dtype, std::span<std::byte> dst) const = 0;

  /// The layout in which kernels can read the tensor in its stored form; nothing: it can only be
  /// read as numbers. The tensor is a matrix whose rows are whole groups of panel_group_elements(),
  /// or several such matrices. The panels of several matrices are those of one matrix that has all
  /// their rows.
  [[nodiscard]] virtual std::optional<PanelFormat> panel_format(std::string_view name) const;
  /// Writes the panels of the whole tensor to `dst` (tensor/block_panels.h), without a header.
  /// \pre panel_format(name), and dst.size() is exactly panel_bytes() of the tensor.
  /// \throws FileError E_TRUNCATED, E_IO
  virtual void read_panels(std::string_view name, std::span<std::byte> dst) const;

  /// Whether the tensor can be read in parts that together cost as much as the whole. Several
  /// threads can then share the work, and none of them needs memory for the whole tensor.
  [[nodiscard]] virtual bool reads_rows(std::string_view name) const;
  /// Writes these rows to `dst` as read() would. \pre reads_rows(name), the rows are in the tensor
  virtual void read_rows(std::string_view name,
                         RowRange rows,
                         DType dtype,
                         std::span<std::byte> dst) const;
  /// Writes the panels of these rows to `dst`, as read_panels() would; for several matrices, `rows`
  /// are indices of matrices. \pre reads_rows(name), and `rows` are whole panels, except at the end
  /// of the tensor
  virtual void read_panel_rows(std::string_view name,
                               RowRange rows,
                               std::span<std::byte> dst) const;

  /// Bytes of the tensor as stored, for reports. \pre has(name)
  [[nodiscard]] virtual uint64_t stored_bytes(std::string_view name) const;

  /// A path or a phrase that names the source in messages.
  [[nodiscard]] virtual std::string description() const = 0;

  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }
};

}  // namespace reprise::weights
