#include "reprise/api/loading/engine_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/parallel/communicator.h"

namespace reprise::api {
namespace {

using parallel::Communicator;

constexpr std::string_view kOptions =
    "--tensor-parallel-size, --pipeline-parallel-size, --data-parallel-size";

/// A short text in a message between ranks, cut if it is longer.
template <size_t kSize>
using Text = std::array<char, kSize>;

template <size_t kSize>
void write_text(Text<kSize>& to, std::string_view text) {
  std::ranges::copy(text.substr(0, kSize - 1), to.begin());
}

struct RankMachine {
  int32_t has_gpu = 0;
  int32_t local_rank = 0;
  int32_t num_gpus = 0;
  Text<512> missing{};  // what the machine lacks for exchanges between GPUs
};

struct RankPlace {
  Text<64> boot{};      // tells machines apart; host names need not
  Text<64> gpu{};       // where it is plugged in
  Text<128> machine{};  // its name, for people

  [[nodiscard]] bool has_gpu_of(const RankPlace& other) const {
    return boot == other.boot && gpu == other.gpu;
  }
};

// The ranks with which this one compares its device.
std::array<Communicator*, 2> groups_of(const EngineArgs& args) {
  return {args.ranks, args.replicas};
}

// The groups of the collective ops, in the order in which all their ranks connect.
std::array<Communicator*, 3> connected_groups(const EngineArgs& args) {
  return {args.ranks, args.tensor_ranks, args.expert_engines};
}

template <typename Value>
std::array<Value, Communicator::kMaxRanks> gather(Communicator& ranks, const Value& mine) {
  std::array<Value, Communicator::kMaxRanks> all{};
  ranks.all_gather(
      parallel::Operation::start_up, &mine, all.data(), sizeof mine, parallel::Patience::unlimited);
  return all;
}

std::string kind_text(const RankMachine& machine) {
  return machine.has_gpu != 0 ? "a GPU" : "a CPU";
}

void check_machine(const Communicator& ranks,
                   int rank,
                   const RankMachine& theirs,
                   const RankMachine& of_rank_0) {
  if (theirs.has_gpu != of_rank_0.has_gpu) {
    throw InvalidArgument(fmt::format(
        "--device: rank {} would run on {} and rank {} on {}; all ranks need the same kind of "
        "device: use --device cpu, or --device cuda, which says what the other machine lacks",
        ranks.world_rank(rank),
        kind_text(theirs),
        ranks.world_rank(0),
        kind_text(of_rank_0)));
  }
  if (theirs.has_gpu == 0) return;
  if (theirs.missing[0] != 0) {
    throw InvalidArgument(fmt::format("{}: the GPU of rank {} cannot exchange data: {}",
                                      kOptions,
                                      ranks.world_rank(rank),
                                      theirs.missing.data()));
  }
  // A launcher may show each rank a GPU of its own, which is then number 0 for all of them. Such
  // GPUs are compared when they are open.
  if (theirs.num_gpus == 1 || theirs.local_rank < theirs.num_gpus) return;
  throw InvalidArgument(fmt::format(
      "{}: rank {} is number {} on its machine, which has only {} GPUs; each rank needs a GPU of "
      "its own: start fewer ranks, look at CUDA_VISIBLE_DEVICES, or use --device cpu",
      kOptions,
      ranks.world_rank(rank),
      theirs.local_rank,
      theirs.num_gpus));
}

RankPlace place_of(const EngineDevice& opened) {
  RankPlace place;
  (void)gethostname(place.machine.data(), place.machine.size() - 1);
  // Linux draws this number at each start of the machine; all containers of a machine see the same.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  write_text(place.boot, boot.empty() ? place.machine.data() : boot);
  write_text(place.gpu, opened.accelerator->place_of(*opened.device));
  return place;
}

void require_own_gpu(Communicator& ranks, const RankPlace& mine) {
  const auto all = gather(ranks, mine);
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const RankPlace& theirs = all.at(static_cast<size_t>(rank));
    const auto before = std::span(all).first(static_cast<size_t>(rank));
    const auto same = std::ranges::find_if(
        before, [&](const RankPlace& place) { return place.has_gpu_of(theirs); });
    if (same == before.end()) continue;
    throw InvalidArgument(
        fmt::format("{}: ranks {} and {} both have the GPU at {} of {}; each rank needs a GPU of "
                    "its own: start fewer ranks, look at CUDA_VISIBLE_DEVICES, or use --device cpu",
                    kOptions,
                    ranks.world_rank(static_cast<int>(same - before.begin())),
                    ranks.world_rank(rank),
                    theirs.gpu.data(),
                    theirs.machine.data()));
  }
}

}  // namespace

int agree_on_gpu(const EngineArgs& args, const EngineDevice& opened) {
  RankMachine mine{.has_gpu = opened.is_gpu() ? 1 : 0};
  if (opened.is_gpu()) {
    mine.num_gpus = opened.accelerator->num_devices();
    const auto groups = connected_groups(args);
    const bool is_connected =
        std::ranges::any_of(groups, [](auto* group) { return group != nullptr; });
    if (is_connected) write_text(mine.missing, opened.accelerator->why_no_ranks());
  }
  for (Communicator* ranks : groups_of(args)) {
    if (ranks == nullptr) continue;
    mine.local_rank = ranks->link().options().local_rank;
    const auto all = gather(*ranks, mine);
    for (int rank = 0; rank < ranks->size(); ++rank) {
      check_machine(*ranks, rank, all.at(static_cast<size_t>(rank)), all[0]);
    }
  }
  return mine.num_gpus > 1 ? mine.local_rank : 0;
}

void connect_gpus(const EngineArgs& args, EngineDevice& opened) {
  for (Communicator* ranks : groups_of(args)) {
    if (ranks != nullptr) require_own_gpu(*ranks, place_of(opened));
  }
  for (Communicator* ranks : connected_groups(args)) {
    if (ranks == nullptr) continue;
    opened.device_ranks.push_back(opened.accelerator->join_ranks(*opened.device, *ranks));
  }
}

}  // namespace reprise::api
