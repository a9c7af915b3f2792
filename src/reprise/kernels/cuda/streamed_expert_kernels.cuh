#pragma once

#include "reprise/kernels/cuda/packed_expert_kernels.cuh"
#include "reprise/kernels/cuda/streamed_packed_kernels.cuh"

// Products of experts with tiles of up to eight rows, on GPUs with bulk copies. Which weights a
// block reads is known only when the experts are chosen, so the copies begin after the wait for the
// kernels that choose them, or one kernel earlier: see PackedExpertArguments::knows_experts_early.
namespace reprise::kernels::cuda {

/// The copies of a block's panels of experts, for SlotFiller. The rows of a tile may lie anywhere.
template <typename Form>
class ExpertCopies
    : public PanelCopies<Form, Form::kExpertParts, ExpertItems<kFragmentRows, Form::kExpertParts>> {
 public:
  using Items = ExpertItems<kFragmentRows, Form::kExpertParts>;
  using Base = PanelCopies<Form, Form::kExpertParts, Items>;
  using Base::Base;

  REPRISE_DEVICE void rows(const SlotCursor& at, int /*limit*/) {
    if (at.tile != tile_) {
      tile_ = at.tile;
      count_ = this->items_.tile(tile_).expert < 0 ? 0 : this->items_.rows_of(tile_);
      row_of_lane_ = static_cast<int>(this->items_.x_row(tile_, lane_index()));
    }
    this->copy_rows(
        at, count_, [this](int row) { return int64_t{shuffle_from(row_of_lane_, row)}; });
  }

 private:
  int64_t tile_ = -1;  // whose rows are copied
  int count_ = 0;
  int row_of_lane_ = 0;
};

/// A result of a product of experts. Its bias is loaded while the weights arrive.
template <int kPanels>
class ExpertResult {
 public:
  static constexpr int kParts = kPanels;
  static constexpr int kSums = 1;
  using Arguments = PackedExpertArguments;
  using Items = ExpertItems<kFragmentRows, kPanels>;

  template <typename Form>
  REPRISE_DEVICE bool load(const Arguments& arguments,
                           const Form& /*form*/,
                           const Items& items,
                           const typename Form::Panel& /*panel*/,
                           int64_t item,
                           int part,
                           int row,
                           int column) {
    const LinearArguments& a = arguments.linear.of.product;
    const int64_t output = int64_t{items.panel_of_expert(item, part)} * kPanelColumns + column;
    const int64_t out = output < a.columns ? items.out_row(item, row) : -1;
    if (out < 0) return false;
    at_ = out * a.columns + output;
    const int expert = items.tile(item).expert;
    has_bias_ = a.bias != nullptr && expert >= 0;
    if (!has_bias_) return true;
    with_type(arguments.linear.type, [&](auto type) {
      using T = decltype(type);
      bias_ = as_float(static_cast<const T*>(a.bias)[expert * a.columns + output]);
    });
    return true;
  }
  [[nodiscard]] static REPRISE_DEVICE float factor() { return 1; }
  REPRISE_DEVICE void store(const Arguments& arguments, const float (&products)[1]) const {
    with_type(arguments.linear.type, [&](auto type) {
      using T = decltype(type);
      put(static_cast<T*>(arguments.linear.of.product.out) + at_,
          has_bias_ ? products[0] + bias_ : products[0]);
    });
  }

 private:
  int64_t at_ = 0;
  bool has_bias_ = false;
  float bias_ = 0;
};

/// Computes what packed_expert_linear computes with tiles of eight rows, or of one, with the same
/// bits. The block has kStreamedThreads threads. \pre x, its rows and the bytes of a row are
/// aligned to 16 bytes; a weight in rows has a depth that is a multiple of 32
template <typename Form>
REPRISE_DEVICE void streamed_expert_linear(const PackedExpertArguments& arguments) {
#if defined(__CUDACC__) && __CUDA_ARCH__ < 900
  __trap();  // no launch chooses this kernel: this code has no bulk copies
#else
  constexpr int kParts = Form::kExpertParts;
  using Ring = PanelRing<Form, kParts>;
  using Copies = ExpertCopies<Form>;
  const Form form(arguments.linear);
  const Ring ring(form, arguments.tiles == nullptr ? 1 : kFragmentRows);
  const bool copies = shuffle_from(warp_index(), 0) == kLinearWarps;
  if (copies && lane_index() == 0) ring.begin();
  sync_block();  // the ring's barriers have begun
  const bool is_early = arguments.knows_experts_early && copies;
  if (!is_early) wait_for_earlier_kernels();
  const ExpertItems<kFragmentRows, kParts> items(arguments);
  if (!copies) {
    return multiply_panels<Form, TileRows::by_item, ExpertResult<kParts>>(
        arguments, form, ring, items);
  }
  SlotFiller<Copies> filler(
      ring, SlotCursor(form.depth, Ring::kDepth, ring), items.count, Copies(form, ring, items));
  if (is_early) {
    filler.fill_ring();
    wait_for_earlier_kernels();
  }
  filler.go_on(kFragmentRows);
#endif
}

}  // namespace reprise::kernels::cuda
