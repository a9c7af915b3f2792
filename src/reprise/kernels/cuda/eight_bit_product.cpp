#include "reprise/kernels/cuda/eight_bit_product.h"

#include <algorithm>

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/cuda_kernels.h"
#include "reprise/kernels/cuda/eight_bit_arguments.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/quantize/quantize.h"

namespace reprise::kernels::cuda {
namespace {

/// A product of codes. It is planned before anything is launched, because the library says by
/// types, shapes and alignments whether it computes a product.
class EightBitProduct {
 public:
  EightBitProduct(DeviceExecutor& executor,
                  GemmLibrary& library,
                  const PackedCall& call,
                  int64_t most_outputs);

  /// Whether the library computes `count` outputs.
  [[nodiscard]] bool is_possible(int64_t count) { return plan(0, count).is_possible; }
  /// Bytes of a piece for each output: its codes, or twice its sums, so that the sums of a piece of
  /// the usual size stay in the second-level cache of a large GPU (50 MB) until they are finished.
  [[nodiscard]] int64_t bytes_of_output(int64_t count) {
    return std::max(depth_, plan(0, count).has_sums ? 2 * rows_ * 4 : 0);
  }
  void quantize_rows();
  /// Computes `count` outputs from `first` on.
  void multiply(int64_t first, int64_t count);

 private:
  /// Some outputs of the weight, which the library multiplies at once.
  struct Piece {
    Tensor codes;    // of the weight
    Tensor weights;  // scales of the weight
    Tensor bias;
    Tensor out;
    CodeScales scales;  // which the library applies
    bool is_possible = false;
    bool has_sums = false;  // `out` is sums, which a kernel finishes
  };
  [[nodiscard]] Piece plan(int64_t first, int64_t count);
  void unpack(const Piece& piece, int64_t first) const;
  void finish(const Piece& piece, int64_t first) const;

  [[nodiscard]] bool is_integer() const { return codec_ == PanelFormat::int8_rows; }
  [[nodiscard]] bool has_groups() const { return codec_ == PanelFormat::f8e4m3_g128; }

  DeviceExecutor& executor_;
  GemmLibrary& library_;
  const PackedCall& call_;
  PanelFormat codec_;
  int64_t depth_;
  int64_t group_;  // elements that share a scale
  int64_t rows_;   // of the library's product; with groups a multiple of GemmLibrary::kGroupedRows
  Tensor x_;       // codes [rows_, depth]
  Tensor x_scales_;
  Tensor codes_;   // of the largest piece
  Tensor scales_;  // of its outputs
};

EightBitProduct::EightBitProduct(DeviceExecutor& executor,
                                 GemmLibrary& library,
                                 const PackedCall& call,
                                 int64_t most_outputs)
    : executor_(executor),
      library_(library),
      call_(call),
      codec_(call.weight.layout().codec),
      depth_(call.weight.size(1)),
      group_(call.weight.layout().group(depth_)),
      rows_(call.x.size(0)) {
  if (has_groups()) rows_ = rows_with_room(rows_);
  const int64_t groups = depth_ / group_;
  if (is_integer()) {
    x_ = call.x;
    x_scales_ = call.scale;
  } else {
    x_ = executor.allocate({DType::f8e4m3, {rows_, depth_}});
    x_scales_ = executor.allocate({DType::f32, has_groups() ? Shape{groups, rows_} : Shape{rows_}});
  }
  codes_ = executor.allocate({x_.dtype(), {most_outputs, depth_}});
  scales_ = executor.allocate({DType::f32, {groups * most_outputs}});
}

EightBitProduct::Piece EightBitProduct::plan(int64_t first, int64_t count) {
  const Tensor& bias = call_.bias;
  const int64_t groups = depth_ / group_;
  Piece piece = {.codes = codes_.with_layout({count, depth_}, {depth_, 1}, 0),
                 .weights = has_groups() ? scales_.with_layout({groups, count}, {count, 1}, 0)
                                         : scales_.with_layout({count}, {1}, 0),
                 .bias = bias.defined() ? bias.with_layout({count}, {1}, first) : Tensor{},
                 .out = call_.out.with_layout({rows_, count}, {call_.out.stride(0), 1}, first)};
  const auto is_possible = [&](const Tensor& with_bias) {
    return library_.can_multiply(x_, piece.codes, with_bias, piece.out, piece.scales);
  };
  if (!is_integer()) {
    piece.scales = {.x = x_scales_, .weight = piece.weights};
    // The library adds no bias to float32.
    piece.is_possible =
        (!bias.defined() || call_.out.dtype() != DType::f32) && is_possible(piece.bias);
    if (piece.is_possible) return piece;
    if (!has_groups()) piece.scales = {};
  }
  piece.has_sums = true;
  // Of the sums the library is told the type, the shape and an alignment before they have memory.
  piece.out = Tensor::borrow(
      {is_integer() ? DType::i32 : DType::f32, {rows_, count}}, codes_.data(), executor_);
  piece.is_possible = is_possible({});
  return piece;
}

void EightBitProduct::quantize_rows() {
  const Tensor& x = call_.x;
  if (is_integer()) return;
  if (!has_groups()) {
    launch_quantize_per_token(executor_.stream(), executor_.kernels(), x, x_, x_scales_);
    return;
  }
  constexpr uint32_t kMostBlocks = 2048;
  const QuantizeGroupsArguments arguments = {.x = x.data(),
                                             .q = static_cast<uint8_t*>(x_.data()),
                                             .scales = x_scales_.data_as<float>(),
                                             .x_stride = x.stride(0),
                                             .rows = x.size(0),
                                             .padded_rows = rows_,
                                             .depth = depth_};
  const int64_t groups = rows_ * (depth_ / kActivationGroup);
  launch(executor_.stream(),
         quantize_groups_kernel(x.dtype()),
         std::min(static_cast<uint32_t>(ceil_div(groups, int64_t{kGroupsOfBlock})), kMostBlocks),
         arguments,
         std::array{writes(x_), writes(x_scales_), reads(x)});
}

void EightBitProduct::unpack(const Piece& piece, int64_t first) const {
  const int64_t columns = piece.codes.size(0);
  const PanelCodesArguments arguments = {
      .weight = call_.weight.data(),
      .codes = piece.codes.data(),
      .scales = piece.weights.data_as<float>(),
      .first_panel = first / kPanelColumns,
      .columns = columns,
      .depth = depth_,
      .group = group_,
      .panel_bytes = kPanelColumns * call_.weight.layout().row_bytes,
      .codec = codec_};
  launch(executor_.stream(),
         panel_codes_kernel(),
         static_cast<uint32_t>(num_panels(columns)),
         arguments,
         std::array{writes(piece.codes), writes(piece.weights), reads(call_.weight)});
}

void EightBitProduct::finish(const Piece& piece, int64_t first) const {
  const Tensor& sums = piece.out;
  const bool is_scaled = piece.scales.x.defined();
  const Tensor out =
      call_.out.with_layout({call_.x.size(0), sums.size(1)}, {call_.out.stride(0), 1}, first);
  const FinishSumsArguments arguments = {
      .sums = sums.data(),
      .x_scale = is_scaled ? nullptr : x_scales_.data_as<float>(),
      .scales = piece.weights.data_as<float>(),
      .bias = piece.bias.data(),
      .out = out.data(),
      .x_scale_stride = x_scales_.size(0) == 1 ? 0 : 1,
      .columns = sums.size(1),
      .out_stride = out.stride(0),
      .type = packed_type(call_.weight.dtype()),
      .out_type = packed_type(out.dtype()),
      .has_integers = is_integer()};
  launch(executor_.stream(),
         finish_sums_kernel(),
         static_cast<uint32_t>(out.size(0)),
         arguments,
         std::array{
             writes(out), reads(sums), reads(x_scales_), reads(piece.weights), reads(piece.bias)});
}

void EightBitProduct::multiply(int64_t first, int64_t count) {
  Piece piece = plan(first, count);
  if (piece.has_sums) piece.out = executor_.allocate(piece.out.type());
  unpack(piece, first);
  const bool is_done = library_.multiply(
      x_, piece.codes, piece.has_sums ? Tensor{} : piece.bias, piece.out, piece.scales);
  REPRISE_ASSERT(is_done, "linear: the library refuses a product that it has promised");
  if (piece.has_sums) finish(piece, first);
}

bool has_codes(const PackedCall& call, const DeviceExecutor& executor) {
  const WeightLayout& layout = call.weight.layout();
  if (layout.family == WeightFamily::int8_panels) return true;
  return layout.family == WeightFamily::float_panels && executor.may_quantize_activations() &&
         (layout.codec == PanelFormat::f8e4m3_rows || layout.codec == PanelFormat::f8e4m3_g128);
}

}  // namespace

bool multiply_in_eight_bits(DeviceExecutor& executor,
                            GemmLibrary& library,
                            const PackedCall& call,
                            int64_t piece_bytes) {
  if (!has_codes(call, executor)) return false;
  const int64_t outputs = call.weight.size(0);
  const bool has_groups = call.weight.layout().codec == PanelFormat::f8e4m3_g128;
  if (const int64_t rows = rows_with_room(call.x.size(0)); has_groups && call.out.size(0) < rows) {
    const Tensor out = executor.allocate({call.out.dtype(), {rows, outputs}});
    const PackedCall with_room = {
        .x = call.x, .weight = call.weight, .out = out, .bias = call.bias};
    if (!multiply_in_eight_bits(executor, library, with_room, piece_bytes)) return false;
    REPRISE_ASSERT(call.out.is_dense(), "linear: out must be dense");
    executor.stream().copy(call.out.data(), out.data(), call.out.type().bytes());
    return true;
  }
  // Whole panels, so that pieces of biases and results are aligned.
  const auto piece_of = [&](int64_t bytes_of_output) {
    const int64_t panels = std::max(piece_bytes / bytes_of_output / kPanelColumns, int64_t{1});
    return std::min(panels * kPanelColumns, outputs);
  };
  const int64_t most = piece_of(call.weight.size(1));
  EightBitProduct product(executor, library, call, most);
  const int64_t piece = piece_of(product.bytes_of_output(most));
  const int64_t last = outputs % piece;
  if (!product.is_possible(piece) || (last > 0 && !product.is_possible(last))) return false;
  product.quantize_rows();
  for (int64_t first = 0; first < outputs; first += piece) {
    product.multiply(first, std::min(piece, outputs - first));
  }
  return true;
}

bool can_multiply_in_eight_bits(DeviceExecutor& executor,
                                GemmLibrary& library,
                                PanelFormat codec,
                                DType dtype) {
  constexpr int64_t kSize = 1024;
  const WeightLayout layout = layout_of(codec, kSize);
  const Tensor x = executor.allocate({dtype, {kSize, kSize}});
  const Tensor weight = executor.allocate({dtype, {kSize, kSize}, layout});
  const Tensor out = executor.allocate({dtype, {kSize, kSize}});
  const PackedCall call = {.x = x, .weight = weight, .out = out};
  return has_codes(call, executor) &&
         EightBitProduct(executor, library, call, kSize).is_possible(kSize);
}

}  // namespace reprise::kernels::cuda
