#include "reprise/models/gated_delta_net.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "reprise/models/mixer_parts.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// Checkpoints store q, k, v and the gate of group 0, then those of group 1, and so on; after them
// beta and time step in the same way. This order puts each of the six into one piece.
std::vector<int64_t> rows_in_pieces(const weights::RecurrentConfig& sizes) {
  const int64_t heads = sizes.num_heads / sizes.num_groups;
  const int64_t keys = sizes.state_size;
  const int64_t values = heads * sizes.head_dim;
  std::vector<int64_t> rows;
  int64_t first = 0;
  const auto add_parts = [&](std::initializer_list<int64_t> part_sizes) {
    int64_t group_size = 0;
    for (const int64_t size : part_sizes) group_size += size;
    int64_t begin = first;
    for (const int64_t size : part_sizes) {
      for (int64_t group = 0; group < sizes.num_groups; ++group) {
        for (int64_t i = 0; i < size; ++i) rows.push_back(begin + group * group_size + i);
      }
      begin += size;
    }
    first += sizes.num_groups * group_size;
  };
  add_parts({keys, keys, values, values});
  add_parts({heads, heads});
  return rows;
}

Projection load_inputs(const LayerParts& parts, const weights::RecurrentConfig& sizes) {
  const weights::DecoderTensors& names = parts.names;
  const auto module = [&](std::string_view name) { return fmt::format("{}{}", names.mixer, name); };
  const std::string in = module(names.mixer_in);
  if (names.mixer_z.empty()) {
    return parts.load_linear(
        false, {in, module(names.mixer_gates)}, {.rows = rows_in_pieces(sizes)});
  }
  return parts.load_linear(
      false, {in, module(names.mixer_z), module(names.mixer_beta), module(names.mixer_dt)});
}

}  // namespace

GatedDeltaNet::GatedDeltaNet(const LayerParts& parts)
    : sizes_(*parts.config.recurrent),
      norm_epsilon_(static_cast<float>(parts.config.norm_eps)),
      in_(load_inputs(parts, sizes_)),
      conv_weight_(load_mixer(parts, "conv1d.weight")),
      a_log_(load_mixer(parts, "A_log", DType::f32)),
      dt_bias_(load_mixer(parts, "dt_bias", DType::f32)),
      norm_weight_(load_mixer(parts, "norm.weight")),
      out_(load_mixer_linear(parts, false, parts.names.mixer_out)),
      recurrence_(parts.cache_index()) {}

Tensor GatedDeltaNet::operator()(cudagraph::ForwardContext& context,
                                 const Tensor& hidden,
                                 const Tensor&) const {
  const int64_t keys = sizes_.group_size();
  const int64_t values = sizes_.value_size();
  const int64_t conv = sizes_.conv_size();
  const int64_t heads = sizes_.num_heads;
  const int64_t neighbours = sizes_.has_tiled_heads ? 1 : heads / sizes_.num_groups;
  const Tensor projected = project(context, hidden, in_);
  const Tensor gate = ops::slice(projected, 1, conv, values);
  const Tensor beta = ops::slice(projected, 1, conv + values, heads);
  const Tensor dt = ops::slice(projected, 1, conv + values + heads, heads);
  const Tensor convolved =
      recurrence_.convolve(context, ops::slice(projected, 1, 0, conv), conv_weight_, {});
  const Tensor scanned = recurrence_.delta_scan(context,
                                                {.q = ops::slice(convolved, 1, 0, keys),
                                                 .k = ops::slice(convolved, 1, keys, keys),
                                                 .v = ops::slice(convolved, 1, 2 * keys, values),
                                                 .beta = beta,
                                                 .dt = dt,
                                                 .a_log = a_log_,
                                                 .dt_bias = dt_bias_,
                                                 .neighbours = neighbours});
  const Tensor normed = ops::rms_norm(ops::unflatten(scanned, heads), norm_weight_, norm_epsilon_);
  return project(context, ops::mul_gate(ops::flatten(normed), gate, OpFunction::silu), out_);
}

}  // namespace reprise::models
