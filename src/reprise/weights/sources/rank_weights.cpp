#include "reprise/weights/sources/rank_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/tensor/float_panels.h"
#include "reprise/weights/config/decoder_tensors.h"

namespace reprise::weights {
namespace {

bool generates_text(const ModelConfig& config) {
  return !config.pooling && !config.classifier && !config.is_encoder;
}

// The part of the model that does not support tensor-parallel ranks yet; empty: all parts do.
std::string_view unready_part(const ModelConfig& config) {
  if (config.num_recurrent_layers() > 0) return "recurrent layers";
  if (!generates_text(config)) return "models that give vectors or labels";
  if (config.quantization.method != QuantizationMethod::none) return "quantised weights";
  if (config.has_layer_scalars) return "the layers of Gemma 4";
  if (config.has_single_blocks) return "layers of one block";
  if (config.full_heads) return "heads that differ between layers";
  if (config.qk_norm == QkNorm::all_heads) return "norms over all heads of q and k";
  if (config.qk_norm == QkNorm::own_per_head) return "norms with weights of each head of q and k";
  if (config.has_attention_gate || config.has_head_gates) return "gates of heads";
  const bool has_known_rows =
      config.qkv_layout == QkvLayout::separate || config.qkv_layout == QkvLayout::stacked;
  if (!has_known_rows) return "q, k and v that one tensor holds head by head";
  if (decoder_tensors(config).is_transposed) return "weights that are stored transposed";
  return {};
}

// The same for ranks that have whole layers or whole experts.
std::string_view unready_for_whole_parts(const ModelConfig& config) {
  if (config.has_layer_scalars) return "the layers of Gemma 4";
  if (config.has_single_blocks) return "layers of one block";
  if (config.num_recurrent_layers() > 0) return "recurrent layers";
  if (!generates_text(config)) return "models that give vectors or labels";
  if (config.quantization.method != QuantizationMethod::none) return "quantised weights";
  return {};
}

// The model's encoder, which runs only on a single rank; empty: there is none.
std::string_view encoder_part(const ModelConfig& config) {
  return config.encoder ? "an encoder in front of the decoder" : "";
}

void refuse_part(std::string_view option,
                 int64_t ranks,
                 std::string_view part,
                 const ModelConfig& config) {
  if (part.empty()) return;
  throw InvalidArgument(fmt::format("{}: {} ranks are not supported with {} ({}); use 1",
                                    option,
                                    ranks,
                                    part,
                                    architecture_name(config.architecture)));
}

void require_divisible(std::string_view what, int64_t value, int64_t ranks) {
  if (value % ranks == 0) return;
  throw InvalidArgument(fmt::format(
      "--tensor-parallel-size: {} ranks cannot divide {} {} evenly", ranks, value, what));
}

void divide_heads(ModelConfig& config, int64_t ranks) {
  require_divisible("attention heads", config.num_attention_heads, ranks);
  config.num_attention_heads /= ranks;
  if (config.mla) return;  // all heads read one latent
  // With fewer key/value heads than ranks, several ranks share each head.
  if (config.num_key_value_heads >= ranks) {
    require_divisible("key/value heads", config.num_key_value_heads, ranks);
  } else if (ranks % config.num_key_value_heads != 0) {
    throw InvalidArgument(
        fmt::format("--tensor-parallel-size: {} ranks cannot share {} key/value heads evenly",
                    ranks,
                    config.num_key_value_heads));
  }
  config.num_key_value_heads = std::max<int64_t>(1, config.num_key_value_heads / ranks);
}

bool has_dense_layer(const ModelConfig& config) {
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe_layer(layer)) return true;
  }
  return false;
}

void divide_mlps(ModelConfig& config, const RankOfModel& rank) {
  const int64_t ranks = rank.tensor_ranks;
  if (has_dense_layer(config)) {
    require_divisible("rows of the MLP (intermediate_size)", config.intermediate_size, ranks);
    config.intermediate_size /= ranks;
  }
  if (!config.moe) return;
  MixtureOfExperts& moe = *config.moe;
  require_divisible("rows of the shared expert", moe.shared_intermediate_size, ranks);
  moe.shared_intermediate_size /= ranks;
  if (rank.divides_experts) return;
  if (moe.intermediate_size % ranks != 0) {
    throw InvalidArgument(
        fmt::format("--tensor-parallel-size: {} ranks cannot divide {} rows of each expert evenly; "
                    "--enable-expert-parallel gives each rank whole experts",
                    ranks,
                    moe.intermediate_size));
  }
  moe.intermediate_size /= ranks;
}

void divide_experts(ModelConfig& config, const RankOfModel& rank) {
  if (!config.moe) {
    throw InvalidArgument(
        fmt::format("--enable-expert-parallel: {} has no experts; leave the option out",
                    architecture_name(config.architecture)));
  }
  MixtureOfExperts& moe = *config.moe;
  const bool among_engines = rank.engines > 1;
  const int64_t parts = among_engines ? rank.engines : rank.tensor_ranks;
  if (parts > moe.num_experts) {
    throw InvalidArgument(
        fmt::format("--enable-expert-parallel: {} ranks are more than the {} experts of a layer",
                    parts,
                    moe.num_experts));
  }
  if (parts == 1) return;
  moe.of_rank =
      experts_of_part(moe.num_experts, among_engines ? rank.engine : rank.tensor_rank(), parts);
  moe.engines = rank.engines;
}

}  // namespace

ExpertRange experts_of_part(int64_t num_experts, int64_t part, int64_t parts) {
  const int64_t least = num_experts / parts;
  const int64_t more = num_experts % parts;
  return {.begin = part * least + std::min(part, more), .count = least + (part < more ? 1 : 0)};
}

ModelConfig config_of_rank(const ModelConfig& whole, const RankOfModel& rank) {
  ModelConfig config = whole;
  if (rank.tensor_ranks > 1) {
    refuse_part("--tensor-parallel-size", rank.tensor_ranks, encoder_part(whole), whole);
    refuse_part("--tensor-parallel-size", rank.tensor_ranks, unready_part(whole), whole);
    divide_heads(config, rank.tensor_ranks);
    divide_mlps(config, rank);
    config.tensor_parallel_size = rank.tensor_ranks;
    config.tensor_rank = rank.tensor_rank();
  }
  if (rank.stages > 1) {
    refuse_part("--pipeline-parallel-size", rank.stages, encoder_part(whole), whole);
    refuse_part("--pipeline-parallel-size", rank.stages, unready_for_whole_parts(whole), whole);
    if (whole.num_hidden_layers < rank.stages) {
      throw InvalidArgument(
          fmt::format("--pipeline-parallel-size: {} ranks are more than the {} layers of the model",
                      rank.stages,
                      whole.num_hidden_layers));
    }
    config.pipeline_parallel_size = rank.stages;
    config.pipeline_rank = rank.stage();
  }
  if (rank.divides_experts) {
    if (rank.engines > 1) {
      refuse_part("--enable-expert-parallel", rank.engines, unready_for_whole_parts(whole), whole);
    }
    divide_experts(config, rank);
  }
  return config;
}

int64_t vocab_rows_of_rank(int64_t vocab_size, int64_t ranks) {
  constexpr int64_t kRows = 64;
  const int64_t rows = (vocab_size + ranks - 1) / ranks;
  return (rows + kRows - 1) / kRows * kRows;
}

// Cuts the tensors of one layer to the part of one rank. The tensor ranks of a stage share each
// layer.
class RankWeights::Layer {
 public:
  Layer(RankWeights& weights, const ModelConfig& whole, const RankOfModel& rank, int64_t layer)
      : weights_(weights),
        whole_(whole),
        mine_(config_of_rank(whole, rank)),
        names_(decoder_tensors(whole)),
        ranks_(rank.tensor_ranks),
        rank_(rank.tensor_rank()),
        layer_(layer) {}

  void add() {
    whole_.mla ? add_latent_attention() : add_attention();
    if (whole_.has_sinks(layer_)) {
      weights_.add(names_.in_layer(layer_, names_.sinks), 0, {share(mine_.num_attention_heads)});
    }
    if (!whole_.is_moe_layer(layer_)) {
      add_mlp(names_.gate, names_.up, names_.gate_up, names_.down, mine_.intermediate_size);
      return;
    }
    if (!mine_.moe->of_rank) whole_.moe->is_stacked ? add_stacked_experts() : add_experts();
    if (mine_.moe->shared_intermediate_size > 0) add_shared_expert();
  }

 private:
  // This rank's range of `size` entries, if all ranks have equal ranges.
  [[nodiscard]] Range share(int64_t size) const { return {rank_ * size, size}; }
  [[nodiscard]] static Range behind(int64_t offset, Range range) {
    return {offset + range.begin, range.count};
  }

  void add_rows(std::string_view module, const std::vector<Range>& ranges) {
    if (module.empty()) return;
    for (const char* suffix : {".weight", ".bias"}) {
      weights_.add(names_.in_layer(layer_, module) + suffix, 0, ranges);
    }
  }
  void add_columns(std::string_view module, Range range) {
    weights_.add(names_.in_layer(layer_, module) + ".weight", 1, {range});
    // No range: all zeros.
    if (rank_ > 0) weights_.add(names_.in_layer(layer_, module) + ".bias", 0, {});
  }

  void add_attention() {
    const Range q = share(mine_.q_size());
    const int64_t kv_head = rank_ * whole_.num_key_value_heads / ranks_;
    const Range kv{kv_head * whole_.head_dim, mine_.kv_size()};
    if (names_.qkv.empty()) {
      add_rows(names_.q, {q});
      add_rows(names_.k, {kv});
      add_rows(names_.v, {kv});
    } else {
      add_rows(names_.qkv,
               {q, behind(whole_.q_size(), kv), behind(whole_.q_size() + whole_.kv_size(), kv)});
    }
    add_columns(names_.o, q);
  }

  // Every rank computes the latents; each rank has some of the heads that are made from them.
  void add_latent_attention() {
    const LatentAttentionConfig& mla = *whole_.mla;
    const int64_t heads = mine_.num_attention_heads;
    add_rows(mla.q_lora_rank > 0 ? names_.q_b : names_.q, {share(heads * mla.qk_head_dim())});
    add_rows(names_.kv_b, {share(heads * (mla.qk_nope_head_dim + mla.v_head_dim))});
    add_columns(names_.o, share(heads * mla.v_head_dim));
  }

  // `size`: the number of this rank's rows.
  void add_mlp(std::string_view gate,
               std::string_view up,
               std::string_view gate_up,
               std::string_view down,
               int64_t size) {
    const Range mine = share(size);
    if (gate_up.empty()) {
      if (whole_.has_gated_mlp) add_rows(gate, {mine});
      add_rows(up, {mine});
    } else {
      add_rows(gate_up, {mine, behind(size * ranks_, mine)});
    }
    add_columns(down, mine);
  }

  void add_experts() {
    for (int64_t expert = 0; expert < whole_.moe->num_experts; ++expert) {
      const std::string prefix = fmt::format("{}{}.", names_.experts, expert);
      add_mlp(prefix + std::string(names_.expert_gate),
              prefix + std::string(names_.expert_up),
              {},
              prefix + std::string(names_.expert_down),
              mine_.moe->intermediate_size);
    }
  }

  void add_shared_expert() {
    const std::string prefix(names_.shared_expert);
    const std::string stacked =
        names_.shared_gate_up.empty() ? "" : prefix + std::string(names_.shared_gate_up);
    const auto [gate, up, down] = names_.shared_modules();
    add_mlp(prefix + std::string(gate),
            prefix + std::string(up),
            stacked,
            prefix + std::string(down),
            mine_.moe->shared_intermediate_size);
  }

  void add_stacked_experts() {
    const std::string prefix = names_.in_layer(layer_, names_.experts);
    const std::string gate_up = prefix + std::string(names_.expert_gate_up);
    const std::string down = prefix + std::string(names_.expert_down);
    const Range mine = share(mine_.moe->intermediate_size);
    const std::vector<Range> both = {mine, behind(whole_.moe->intermediate_size, mine)};
    weights_.add(gate_up, 1, both);
    weights_.add(gate_up + "_bias", 1, both);
    weights_.add(down, 2, {mine});
    if (rank_ > 0) weights_.add(down + "_bias", 0, {});
  }

  RankWeights& weights_;
  const ModelConfig& whole_;
  ModelConfig mine_;
  DecoderTensors names_;
  int64_t ranks_;
  int64_t rank_;
  int64_t layer_;
};

RankWeights::RankWeights(std::unique_ptr<WeightSource> source,
                         const ModelConfig& whole,
                         const RankOfModel& rank)
    : source_(std::move(source)) {
  const ModelConfig mine = config_of_rank(whole, rank);
  for (int64_t layer = mine.first_layer(); layer < mine.end_layer(); ++layer) {
    if (rank.tensor_ranks > 1) Layer(*this, whole, rank, layer).add();
    // If a checkpoint has a tensor for each expert, nothing is cut: the model reads only this
    // rank's experts.
    if (mine.is_moe_layer(layer) && mine.moe->of_rank && mine.moe->is_stacked) {
      add_stacked_experts(whole, *mine.moe->of_rank, layer);
    }
  }
  if (rank.num_ranks() > 1) add_head(whole, rank);
}

void RankWeights::add_stacked_experts(const ModelConfig& whole,
                                      ExpertRange experts,
                                      int64_t layer) {
  const DecoderTensors names = decoder_tensors(whole);
  const std::string prefix = names.in_layer(layer, names.experts);
  for (const std::string_view matrices : {names.expert_gate_up, names.expert_down}) {
    for (const char* suffix : {"", "_bias"}) {
      add(fmt::format("{}{}{}", prefix, matrices, suffix), 0, {{experts.begin, experts.count}});
    }
  }
}

void RankWeights::add_head(const ModelConfig& whole, const RankOfModel& rank) {
  const DecoderTensors names = decoder_tensors(whole);
  const std::string head = fmt::format("{}.weight", names.lm_head);
  const std::string embedding = fmt::format("{}.weight", names.embedding);
  const int64_t rows = vocab_rows_of_rank(whole.vocab_size, rank.num_ranks());
  add_as(head, whole.tie_word_embeddings ? embedding : head, 0, {{rank.rank * rows, rows}});
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
  // Stacked experts in blocks are cut as numbers. Panels of smaller floats can also be read as
  // numbers, and then they are.
  const std::optional<PanelFormat> packed = source_->panel_format(stored_name);
  if (packed && stored->shape.size() == 2 && family_of(*packed) != WeightFamily::float_panels) {
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
  // The tensor consists of `outer` times stored[dim] entries of `inner` bytes.
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
