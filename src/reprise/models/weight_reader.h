#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/models/part_runner.h"
#include "reprise/tensor/block_panels.h"
#include "reprise/tensor/tensor.h"
#include "reprise/weights/weight_source.h"

namespace reprise::models {

/// How stored tensors become one loaded tensor. The default leaves them as they are.
struct Arrangement {
  bool is_transposed = false;  // each matrix is stored [in, out]
  /// Row i of the result is row rows[i] of the stack; each element of a bias counts as a row.
  /// Empty: all rows, in order.
  std::vector<int64_t> rows = {};
  /// The result is [num_experts, rows / num_experts, columns]: a matrix for each expert, or for
  /// each head. 0: the result has the rank of the tensors.
  int64_t num_experts = 0;
  bool transposes_each = false;     // these matrices are transposed
  std::optional<DType> dtype = {};  // type of the result; not given: the model's type
  // Name of the result in messages; empty: made from the names of the tensors.
  std::string name = {};

  [[nodiscard]] bool is_trivial() const noexcept {
    return is_in_order() && num_experts == 0 && !dtype;
  }
  /// Whether the elements keep the order in which they are stored.
  [[nodiscard]] bool is_in_order() const noexcept {
    return !is_transposed && rows.empty() && !transposes_each;
  }
};

/// Whether the source packs weights of this family.
[[nodiscard]] constexpr bool is_packed(WeightFamily family) noexcept {
  return family != WeightFamily::rows && family != WeightFamily::column_panels;
}

/// How one weight is read.
struct WeightPlan {
  std::vector<std::string> names;  // in the source
  Arrangement arrangement;
  TensorType stacked;  // type of the tensors, stacked along the first dimension
  TensorType type;     // type of the weight; its layout says how the weight is packed

  [[nodiscard]] WeightFamily family() const noexcept { return type.layout.family; }
};

/// The shape of one tensor in the stack.
[[nodiscard]] Shape loaded_shape(const weights::TensorSpec& spec, bool is_transposed);

/// The type of a stack after arranging it.
[[nodiscard]] TensorType arranged_type(TensorType stacked, const Arrangement& arrangement);

/// The parts of a packed weight that stacks several matrices. Neighbours of the same format become
/// one part, unless a panel would then hold columns of both. \throws FileError
[[nodiscard]] std::vector<PanelPart> panel_parts(const weights::WeightSource& source,
                                                 std::span<const std::string_view> names);

/// Reads weights into memory of the host, tensor after tensor, each by all workers of a device.
/// Needs memory for a part of a tensor per worker, and for two copies of a tensor whose elements
/// change their order or that the source reads as a whole.
class WeightReader {
 public:
  /// The stream must outlive this object.
  explicit WeightReader(device::Stream& stream) : parts_(stream) {}

  /// \pre dst has the bytes of plan.type \throws FileError
  void read(const weights::WeightSource& source, const WeightPlan& plan, std::span<std::byte> dst);

 private:
  using Names = std::span<const std::string_view>;
  /// Called with a range of rows, or with nothing for the whole tensor.
  using RunPart = std::function<void(std::optional<weights::RowRange> rows)>;

  /// Reads tensors one after the other, unchanged.
  void read_stacked(const weights::WeightSource& source,
                    Names names,
                    const TensorType& weight,
                    std::span<std::byte> dst);
  /// Reads a packed weight: a header and panels.
  void read_blocks(const weights::WeightSource& source, Names names, std::span<std::byte> dst);
  /// Reads panels one after the other, as the source packs them. Fills the rest of `dst` with
  /// zeros.
  void read_panels(const weights::WeightSource& source, Names names, std::span<std::byte> dst);
  /// Calls `run_part` from several threads with ranges of rows that are whole panels and together
  /// make up the tensor, or once for the whole tensor.
  void for_parts(const weights::WeightSource& source,
                 std::string_view name,
                 const RunPart& run_part);
  /// Calls `read_tensor(i)` for all tensors: from several threads if they are many and small, as
  /// experts are, and otherwise one after the other. `read_tensor` is told whether it may divide
  /// its own work among threads.
  void for_tensors(const weights::WeightSource& source,
                   Names names,
                   const std::function<void(size_t index, bool may_share)>& read_tensor);

  PartRunner parts_;
};

}  // namespace reprise::models
