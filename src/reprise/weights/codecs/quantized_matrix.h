#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// A matrix of a quantised checkpoint, which stores it in several tensors. Reads them on demand.
/// Immutable; thread-safe.
class QuantizedMatrix {
 public:
  virtual ~QuantizedMatrix() = default;
  QuantizedMatrix(const QuantizedMatrix&) = delete;
  QuantizedMatrix& operator=(const QuantizedMatrix&) = delete;

  [[nodiscard]] const TensorSpec& spec() const noexcept { return spec_; }  // [outputs, depth]
  [[nodiscard]] int64_t outputs() const noexcept { return spec_.shape[0]; }
  [[nodiscard]] int64_t depth() const noexcept { return spec_.shape[1]; }
  /// The stored tensors.
  [[nodiscard]] const std::vector<std::string>& parts() const noexcept { return parts_; }

  using OnRow = std::function<void(int64_t row, std::span<const float> values)>;
  /// Calls `on_row` with the values of each row, in order.
  virtual void read_rows(const OnRow& on_row) const = 0;

  /// The panel format in which the matrix can stay packed without a change of its values.
  [[nodiscard]] virtual std::optional<PanelFormat> panels() const { return std::nullopt; }
  /// \pre panels()
  virtual void read_panels(std::span<std::byte> dst) const;

 protected:
  QuantizedMatrix(const WeightSource& source, std::vector<std::string> parts)
      : source_(&source), parts_(std::move(parts)) {}

  /// \pre both sizes are positive
  void set_shape(int64_t outputs, int64_t depth) { spec_.shape = {outputs, depth}; }
  [[nodiscard]] const WeightSource& source() const noexcept { return *source_; }

 private:
  const WeightSource* source_;  // owned by QuantizedMatrices
  std::vector<std::string> parts_;
  TensorSpec spec_{.dtype = DType::f32, .shape = {}};
};

/// A matrix of integer codes: element k of output n is scale[n, g] * (code[n, k] - zero[n, g]),
/// where g is the group of k.
class IntegerMatrix : public QuantizedMatrix {
 public:
  void read_rows(const OnRow& on_row) const final;
  [[nodiscard]] std::optional<PanelFormat> panels() const final { return panels_; }
  void read_panels(std::span<std::byte> dst) const final;

 protected:
  struct Codes {
    std::vector<uint8_t> codes;   // [outputs, depth]
    std::vector<float> scales;    // [outputs, groups]
    std::vector<uint16_t> zeros;  // [outputs, groups]; up to 256
  };
  using QuantizedMatrix::QuantizedMatrix;

  [[nodiscard]] virtual Codes read_codes() const = 0;
  /// Decides whether the matrix stays packed. `bits`: 4 or 8. Codes of eight bits with one scale
  /// for each output become int8_rows only if activations have one scale for each token, or one for
  /// all tokens.
  void choose_panels(int bits, std::span<const float> scales, std::span<const uint16_t> zeros);
  /// Reads the group of each element, if groups need not be neighbouring elements. \throws
  /// FileError E_SHAPE, E_DTYPE, E_VALUE
  void read_group_order(const std::string& name);
  [[nodiscard]] int64_t num_groups() const { return (depth() + group_size_ - 1) / group_size_; }

  int64_t group_size_ = 0;
  std::vector<int32_t> group_of_;  // by element; empty: groups are neighbouring elements
  // Activations have one scale for each token, or one for all tokens.
  bool has_int8_rows_ = false;

 private:
  std::optional<PanelFormat> panels_;
};

using MatrixMap = std::map<std::string, std::unique_ptr<QuantizedMatrix>, std::less<>>;

/// A source with quantised matrices, each under the name "M.weight". All other tensors are those of
/// the source beneath.
class QuantizedMatrices final : public WeightSource {
 public:
  /// `matrices` read from `source`.
  QuantizedMatrices(std::unique_ptr<WeightSource> source, MatrixMap matrices);

  [[nodiscard]] const TensorSpec* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string_view> names() const override { return names_; }
  void read(std::string_view name, DType dtype, std::span<std::byte> dst) const override;
  [[nodiscard]] std::optional<PanelFormat> panel_format(std::string_view name) const override;
  void read_panels(std::string_view name, std::span<std::byte> dst) const override;
  [[nodiscard]] uint64_t stored_bytes(std::string_view name) const override;
  [[nodiscard]] std::string description() const override { return source_->description(); }

  /// The number of matrices that do not stay packed: "12 matrices". Empty if all stay packed. For a
  /// log line.
  [[nodiscard]] std::string matrices_without_panels() const;

 private:
  [[nodiscard]] const QuantizedMatrix* matrix_of(std::string_view name) const;

  std::unique_ptr<WeightSource> source_;
  MatrixMap matrices_;
  std::vector<std::string_view> names_;  // sorted
};

using MakeMatrix = std::function<std::unique_ptr<QuantizedMatrix>(std::string module,
                                                                  std::vector<std::string> parts)>;
/// Makes a matrix "M.weight" for each module M that has a tensor with the first of these suffixes,
/// unless `make` returns nullptr: then M is stored in another way. The matrix gets the names of all
/// its parts that the source has. \throws FileError E_DUPLICATE,
/// and the exceptions of `make`
[[nodiscard]] MatrixMap find_matrices(const WeightSource& source,
                                      std::initializer_list<std::string_view> suffixes,
                                      const MakeMatrix& make);

/// Whether a matrix of this name is only used in products, as a whole: it is neither a table whose
/// rows are looked up, nor one of many experts. Panels of smaller floats have kernels only for such
/// matrices.
[[nodiscard]] bool is_multiplied_whole(std::string_view name);
/// Reads a stored tensor's bytes unchanged.
[[nodiscard]] std::vector<std::byte> read_stored(const WeightSource& source, std::string_view name);
/// \throws FileError E_MISSING, E_DTYPE if the tensor is not int32
[[nodiscard]] std::vector<uint32_t> read_words(const WeightSource& source, std::string_view name);
/// Reads a tensor of float32, bfloat16 or float16 as numbers. \throws FileError E_DTYPE
[[nodiscard]] std::vector<float> read_numbers(const WeightSource& source, std::string_view name);
/// \throws FileError E_MISSING
[[nodiscard]] const TensorSpec& require_tensor(const WeightSource& source, std::string_view name);
/// \throws FileError E_SHAPE that says what the shape should be
void require_tensor_shape(const WeightSource& source,
                          std::string_view name,
                          const std::vector<int64_t>& shape);
[[noreturn]] void fail_shape(const WeightSource& source,
                             std::string_view name,
                             std::string_view expected);

}  // namespace reprise::weights
