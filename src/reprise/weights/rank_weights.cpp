#include "reprise/weights/rank_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/decoder_tensors.h"

namespace reprise::weights {
namespace {

// The part of the model that a rank of a group cannot have yet; empty: there is none.
std::string_view unready_part(const ModelConfig& config) {
  if (config.moe) return "mixtures of experts";
  if (config.mla) return "multi-head latent attention";
  if (config.num_recurrent_layers() > 0) return "recurrent layers";
  if (config.has_attention_sinks) return "attention sinks";
  if (config.pooling || config.is_encoder) return "models that give vectors";
  if (config.qk_norm == QkNorm::all_heads) return "norms over all heads of q and k";
  if (config.quantization.method != QuantizationMethod::none) return "quantised weights";
  const bool has_known_rows =
      config.qkv_layout == QkvLayout::separate || config.qkv_layout == QkvLayout::stacked;
  if (!has_known_rows) return "q, k and v that one tensor holds head by head";
  if (decoder_tensors(config).is_transposed) return "weights that are stored transposed";
  return {};
}

void require_divisible(std::string_view what, int64_t value, int64_t ranks) {
  if (value % ranks == 0) return;
  throw InvalidArgument(fmt::format(
      "--tensor-parallel-size: {} ranks cannot divide {} {} evenly", ranks, value, what));
}

}  // namespace

ModelConfig config_of_rank(const ModelConfig& whole, int64_t ranks) {
  if (ranks == 1) return whole;
  if (const std::string_view part = unready_part(whole); !part.empty()) {
    throw InvalidArgument(
        fmt::format("--tensor-parallel-size: {} ranks are not supported with {} ({}); use 1",
                    ranks,
                    part,
                    architecture_name(whole.architecture)));
  }
  require_divisible("attention heads", whole.num_attention_heads, ranks);
  require_divisible("rows of the MLP (intermediate_size)", whole.intermediate_size, ranks);
  // With fewer key/value heads than ranks, several ranks have the same one.
  if (whole.num_key_value_heads >= ranks) {
    require_divisible("key/value heads", whole.num_key_value_heads, ranks);
  } else if (ranks % whole.num_key_value_heads != 0) {
    throw InvalidArgument(
        fmt::format("--tensor-parallel-size: {} ranks cannot share {} key/value heads evenly",
                    ranks,
                    whole.num_key_value_heads));
  }
  ModelConfig config = whole;
  config.num_attention_heads /= ranks;
  config.num_key_value_heads = std::max<int64_t>(1, whole.num_key_value_heads / ranks);
  config.intermediate_size /= ranks;
  config.tensor_parallel_size = ranks;
  return config;
}

ModelConfig config_of_stage(const ModelConfig& whole, int64_t rank, int64_t ranks) {
  if (ranks == 1) return whole;
  std::string_view part;
  if (whole.num_recurrent_layers() > 0) part = "recurrent layers";
  if (whole.pooling || whole.is_encoder) part = "models that give vectors";
  if (whole.quantization.method != QuantizationMethod::none) part = "quantised weights";
  if (!part.empty()) {
    throw InvalidArgument(
        fmt::format("--pipeline-parallel-size: {} ranks are not supported with {} ({}); use 1",
                    ranks,
                    part,
                    architecture_name(whole.architecture)));
  }
  if (whole.num_hidden_layers < ranks) {
    throw InvalidArgument(
        fmt::format("--pipeline-parallel-size: {} ranks are more than the {} layers of the model",
                    ranks,
                    whole.num_hidden_layers));
  }
  ModelConfig config = whole;
  config.pipeline_parallel_size = ranks;
  config.pipeline_rank = rank;
  return config;
}

int64_t vocab_rows_of_rank(int64_t vocab_size, int64_t ranks) {
  constexpr int64_t kRows = 64;
  const int64_t rows = (vocab_size + ranks - 1) / ranks;
  return (rows + kRows - 1) / kRows * kRows;
}

RankWeights::RankWeights(std::unique_ptr<WeightSource> source,
                         const ModelConfig& whole,
                         RankOfModel rank)
    : source_(std::move(source)) {
  for (int64_t layer = 0; layer < whole.num_hidden_layers; ++layer) add_layer(whole, rank, layer);
  add_head(whole, rank);
}

std::unique_ptr<RankWeights> RankWeights::of_stage(std::unique_ptr<WeightSource> source,
                                                   const ModelConfig& whole,
                                                   RankOfModel rank) {
  std::unique_ptr<RankWeights> part(new RankWeights(std::move(source)));
  part->add_head(whole, rank);
  return part;
}

void RankWeights::add_head(const ModelConfig& whole, RankOfModel rank) {
  const DecoderTensors names = decoder_tensors(whole);
  const std::string head = fmt::format("{}.weight", names.lm_head);
  const std::string embedding = fmt::format("{}.weight", names.embedding);
  const int64_t rows = vocab_rows_of_rank(whole.vocab_size, rank.size);
  add_as(head, whole.tie_word_embeddings ? embedding : head, 0, {{rank.rank * rows, rows}});
}

void RankWeights::add_layer(const ModelConfig& whole, RankOfModel rank, int64_t layer) {
  const DecoderTensors names = decoder_tensors(whole);
  const ModelConfig mine = config_of_rank(whole, rank.size);
  const Range q{rank.rank * mine.q_size(), mine.q_size()};
  const int64_t kv_head = rank.rank * whole.num_key_value_heads / rank.size;
  const Range kv{kv_head * whole.head_dim, mine.kv_size()};
  const Range mlp{rank.rank * mine.intermediate_size, mine.intermediate_size};
  const auto behind = [](int64_t offset, Range range) {
    return Range{offset + range.begin, range.count};
  };
  const auto add_rows = [&](std::string_view module, const std::vector<Range>& ranges) {
    if (module.empty()) return;
    for (const char* suffix : {".weight", ".bias"}) {
      add(names.in_layer(layer, module) + suffix, 0, ranges);
    }
  };
  const auto add_columns = [&](std::string_view module, Range range) {
    add(names.in_layer(layer, module) + ".weight", 1, {range});
    // No range: all zeros.
    if (rank.rank > 0) add(names.in_layer(layer, module) + ".bias", 0, {});
  };
  if (names.qkv.empty()) {
    add_rows(names.q, {q});
    add_rows(names.k, {kv});
    add_rows(names.v, {kv});
  } else {
    add_rows(names.qkv,
             {q, behind(whole.q_size(), kv), behind(whole.q_size() + whole.kv_size(), kv)});
  }
  add_columns(names.o, q);
  if (names.gate_up.empty()) {
    if (whole.has_gated_mlp) add_rows(names.gate, {mlp});
    add_rows(names.up, {mlp});
  } else {
    add_rows(names.gate_up, {mlp, behind(whole.intermediate_size, mlp)});
  }
  add_columns(names.down, mlp);
}

void RankWeights::add(const std::string& name, int dim, std::vector<Range> ranges) {
  add_as(name, name, dim, std::move(ranges));
}

void RankWeights::add_as(const std::string& name,
                         const std::string& stored_name,
                         int dim,
                         std::vector<Range> ranges) {
  const TensorSpec* stored = source_->find(stored_name);
  if (stored == nullptr) return;  // most models have no biases
  if (source_->panel_format(stored_name)) {
    throw InvalidArgument(fmt::format(
        "--tensor-parallel-size: {}: weights in blocks cannot be divided among ranks yet; use 1",
        stored_name));
  }
  TensorSpec spec = *stored;
  if (!ranges.empty()) {
    int64_t count = 0;
    for (const Range& range : ranges) count += range.count;
    spec.shape[static_cast<size_t>(dim)] = count;
  }
  parts_.insert_or_assign(name,
                          Part{.stored_name = stored_name,
                               .dim = dim,
                               .ranges = std::move(ranges),
                               .spec = std::move(spec)});
}

const TensorSpec* RankWeights::find(std::string_view name) const {
  const auto part = parts_.find(name);
  return part == parts_.end() ? source_->find(name) : &part->second.spec;
}

std::vector<std::string_view> RankWeights::names() const {
  std::vector<std::string_view> names = source_->names();
  for (const auto& [name, part] : parts_) names.push_back(name);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void RankWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) {
    source_->read(name, dtype, dst);
    return;
  }
  const Part& part = found->second;
  std::fill(dst.begin(), dst.end(), std::byte{0});
  if (part.ranges.empty()) return;
  const std::vector<int64_t>& stored = source_->find(part.stored_name)->shape;
  const auto dim = static_cast<size_t>(part.dim);
  // The tensor is `outer` rows of stored[dim] entries of `inner` bytes.
  int64_t outer = 1;
  for (size_t i = 0; i < dim; ++i) outer *= stored[i];
  auto inner = static_cast<int64_t>(dtype_bytes(dtype));
  for (size_t i = dim + 1; i < stored.size(); ++i) inner *= stored[i];
  std::vector<std::byte> whole(static_cast<size_t>(outer * stored[dim] * inner));
  source_->read(part.stored_name, dtype, whole);
  std::byte* to = dst.data();
  for (int64_t row = 0; row < outer; ++row) {
    for (const Range& range : part.ranges) {
      const int64_t count = std::clamp<int64_t>(stored[dim] - range.begin, 0, range.count);
      if (count > 0) {
        std::memcpy(to,
                    whole.data() + (row * stored[dim] + range.begin) * inner,
                    static_cast<size_t>(count * inner));
      }
      to += range.count * inner;
    }
  }
}

}  // namespace reprise::weights
