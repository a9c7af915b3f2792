#include "reprise/api/options/rank_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/api/options/load_quantization.h"
#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"
#include "reprise/weights/sources/rank_weights.h"

namespace reprise::api {
namespace {

[[noreturn]] void refuse_with_ranks(std::string_view option, std::string_view what) {
  throw InvalidArgument(
      fmt::format("{}: {} is not supported with several ranks (--tensor-parallel-size, "
                  "--pipeline-parallel-size) yet; leave it out",
                  option,
                  what));
}

constexpr std::string_view kMeasured = "capture_size_rule measured";

bool measures_sizes(const EngineArgs& args) {
  return equal_ignoring_case(args.compilation_config.value("capture_size_rule", ""), "measured");
}

void check_data_parallel_options(const EngineArgs& args) {
  if (args.shares_experts() && args.ranks_per_engine() > 1) {
    throw InvalidArgument(
        "--enable-expert-parallel: divides experts among engines (--data-parallel-size) of one "
        "rank each, or among the ranks of one engine (--tensor-parallel-size); use one of the two");
  }
  if (args.data_parallel_size == 1) {
    if (!args.data_parallel_lockstep) return;
    throw InvalidArgument(
        "--data-parallel-lockstep: there is one engine; it needs --data-parallel-size 2 or more");
  }
  const auto refuse = [](std::string_view option, std::string_view with) {
    throw InvalidArgument(
        fmt::format("{}: is not supported with {} yet; leave it out", option, with));
  };
  const std::string_view size = "--data-parallel-size";
  if (args.enable_lora) refuse("--enable-lora", size);
  if (args.kv_events.enable_kv_cache_events) refuse("--kv-events-config", size);
  if (!args.is_in_lockstep()) return;
  const std::string_view lockstep = args.shares_experts()
                                        ? "--enable-expert-parallel and --data-parallel-size"
                                        : "--data-parallel-lockstep";
  if (args.shares_experts() && quantizes_while_loading(args)) refuse("--quantization", lockstep);
  if (!args.speculative_config.empty()) refuse("--speculative-config", lockstep);
  if (args.async_scheduling) refuse("--async-scheduling", lockstep);
  if (args.compilation_config.value("cudagraph_lazy_capture", false)) {
    refuse("cudagraph_lazy_capture", lockstep);
  }
  if (measures_sizes(args)) refuse(kMeasured, lockstep);
}

}  // namespace

void check_rank_options(const EngineArgs& args, const config::ResolvedConfig& graphs) {
  check_data_parallel_options(args);
  const bool divides_weights = args.ranks_per_engine() > 1 || args.shares_experts();
  if (divides_weights && args.quantization == "fp8") refuse_with_ranks("--quantization", "fp8");
  if (args.ranks_per_engine() == 1) return;
  // Pipeline stages; the resolution refuses tensor ranks.
  if (measures_sizes(args)) refuse_with_ranks(kMeasured, "a measurement of each rank");
  if (args.enable_lora) refuse_with_ranks("--enable-lora", "an adapter");
  if (!args.speculative_config.empty()) {
    refuse_with_ranks("--speculative-config", "speculative decoding");
  }
  if (quantizes_while_loading(args)) refuse_with_ranks("--quantization", args.quantization);
  const config::PassConfig& passes = graphs.pass_config;
  if (passes.fuse_gemm_comms.value_or(false)) {
    refuse_with_ranks("pass_config.fuse_gemm_comms", "the pass");
  }
}

void warn_of_ranks(const EngineArgs& args, ResolvedOptions& options) {
  if (!args.enable_expert_parallel || options.rank_config.moe->of_rank) return;
  options.warnings.emplace_back(
      "--enable-expert-parallel has no effect: one rank has all experts of a layer; give "
      "--tensor-parallel-size or --data-parallel-size");
}

weights::RankOfModel rank_of_model(const EngineArgs& args) {
  return {.rank = args.ranks == nullptr ? args.planned_rank : args.ranks->rank(),
          .tensor_ranks = args.tensor_parallel_size,
          .stages = args.pipeline_parallel_size,
          .divides_experts = args.enable_expert_parallel,
          .engine = args.expert_engines == nullptr ? 0 : args.expert_engines->rank(),
          .engines = args.shares_experts() ? args.data_parallel_size : 1};
}

int rank_index(const EngineArgs& args) {
  const weights::RankOfModel rank = rank_of_model(args);
  return static_cast<int>(rank.engine * args.ranks_per_engine() + rank.rank);
}

std::string rank_text(const EngineArgs& args, const weights::ModelConfig& config) {
  std::string text;
  const auto add = [&text](std::string_view what, const parallel::Communicator* group) {
    if (group == nullptr) return;
    text += fmt::format(
        "; {} {} of {} over {}", what, group->rank(), group->size(), group->description());
  };
  add("rank", args.ranks);
  add("engine", args.replicas);
  if (config.moe && config.moe->of_rank) {
    const weights::ExpertRange& mine = *config.moe->of_rank;
    text += fmt::format("; experts {} to {} of {}",
                        mine.begin,
                        mine.begin + mine.count - 1,
                        config.moe->num_experts);
  }
  return text;
}

void require_ranks(const EngineArgs& args) {
  const bool is_leader = args.ranks == nullptr || args.ranks->rank() == 0;
  const int num_engines = args.replicas == nullptr ? 1 : args.replicas->size();
  if (is_leader && args.data_parallel_size > 1 && num_engines != args.data_parallel_size) {
    throw InvalidArgument(
        fmt::format("--data-parallel-size: {} engines are requested, but only {} is running; "
                    "several engines are started by the commands generate, serve, run-batch, bench "
                    "latency and bench throughput",
                    args.data_parallel_size,
                    num_engines));
  }
  const int size = args.ranks == nullptr ? 1 : args.ranks->size();
  // Numbers below 1 are reported with the other options.
  if (size == args.ranks_per_engine() || args.ranks_per_engine() < 1) return;
  throw InvalidArgument(
      fmt::format("--tensor-parallel-size, --pipeline-parallel-size: {} ranks are requested, but "
                  "only {} {} running; several ranks are started by the commands generate, serve, "
                  "run-batch, bench latency and bench throughput",
                  args.ranks_per_engine(),
                  size,
                  size == 1 ? "is" : "are"));
}

KvCacheSize agree_on_cache_size(parallel::Communicator& ranks, KvCacheSize mine) {
  std::array<KvCacheSize, parallel::Communicator::kMaxRanks> all;
  ranks.all_gather(
      parallel::Operation::start_up, &mine, all.data(), sizeof mine, parallel::Patience::unlimited);
  const auto of_ranks = std::span(all).first(static_cast<size_t>(ranks.size()));
  KvCacheSize smallest = mine;
  for (const KvCacheSize& size : of_ranks) {
    smallest.num_blocks = std::min(smallest.num_blocks, size.num_blocks);
    smallest.max_model_len = std::min(smallest.max_model_len, size.max_model_len);
    smallest.num_state_snapshots = std::min(smallest.num_state_snapshots, size.num_state_snapshots);
  }
  return smallest;
}

}  // namespace reprise::api
